//! The facts of a handshake. Stated by the stream, and found by handlers among the properties of
//! their connection.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{CipherSuite, ProtocolVersion};

use crate::tls::engine::Engine;

/// What the two ends of a secured stream have agreed on: a property of the request's
/// [`Connection`](crate::Connection). A clone is a count up.
///
/// ```
/// use segue_http::{Connection, Request, Server, tls};
///
/// let server = Server::new(|request: &mut Request<'_>| {
///     let session = request.extensions().get::<Connection>().and_then(Connection::get::<tls::Session>);
///     match session {
///         Some(session) => format!("you came by {:?}", session.protocol_version()),
///         None => "you came in the open".to_owned(),
///     }
/// });
/// # let _ = server;
/// ```
#[derive(Clone, Debug)]
pub struct Session(Arc<Facts>);

#[derive(Debug)]
struct Facts {
    protocol_version: ProtocolVersion,
    cipher_suite: CipherSuite,
    alpn_protocol: Option<Box<[u8]>>,
    server_name: Option<Box<str>>,
    peer_certificates: Box<[CertificateDer<'static>]>,
}

impl Session {
    /// The facts, after the handshake.
    pub(super) fn of(engine: &Engine) -> Option<Session> {
        let state = engine.common();
        Some(Session(Arc::new(Facts {
            protocol_version: state.protocol_version()?,
            cipher_suite: state.negotiated_cipher_suite()?.suite(),
            alpn_protocol: state.alpn_protocol().map(Box::from),
            server_name: engine.name().map(Box::from),
            peer_certificates: state.peer_certificates().unwrap_or_default().into(),
        })))
    }

    /// The version of TLS.
    ///
    /// ```
    /// fn is_newest(session: &segue_http::tls::Session) -> bool {
    ///     session.protocol_version() == segue_http::tls::rustls::ProtocolVersion::TLSv1_3
    /// }
    /// ```
    #[must_use]
    pub fn protocol_version(&self) -> ProtocolVersion {
        self.0.protocol_version
    }

    /// The algorithms by which the bytes are secured.
    ///
    /// ```
    /// fn name(session: &segue_http::tls::Session) -> Option<&'static str> {
    ///     session.cipher_suite().as_str()
    /// }
    /// ```
    #[must_use]
    pub fn cipher_suite(&self) -> CipherSuite {
        self.0.cipher_suite
    }

    /// The protocol that both ends have named (ALPN): `http/1.1`, or none if one end named none.
    ///
    /// ```
    /// fn is_known(session: &segue_http::tls::Session) -> bool {
    ///     session.alpn_protocol().is_none_or(|protocol| protocol == b"http/1.1")
    /// }
    /// ```
    #[must_use]
    pub fn alpn_protocol(&self) -> Option<&[u8]> {
        self.0.alpn_protocol.as_deref()
    }

    /// The name of the server that the client has asked for (SNI).
    ///
    /// This name is the client's word, like `Host`, with which it need not agree.
    ///
    /// ```
    /// fn is_ours(session: &segue_http::tls::Session) -> bool {
    ///     session.server_name() == Some("example.org")
    /// }
    /// ```
    #[must_use]
    pub fn server_name(&self) -> Option<&str> {
        self.0.server_name.as_deref()
    }

    /// The peer's certificates, its own first: for a server, those that the configuration has asked
    /// the client for and has verified. Empty if there are none.
    ///
    /// ```
    /// fn is_authenticated(session: &segue_http::tls::Session) -> bool {
    ///     !session.peer_certificates().is_empty()
    /// }
    /// ```
    #[must_use]
    pub fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        &self.0.peer_certificates
    }
}
