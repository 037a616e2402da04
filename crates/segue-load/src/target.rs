//! The server's address, and the configuration of TLS that takes any certificate. Used before the
//! first connection.

use std::io;
use std::net::ToSocketAddrs;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use segue_http::http::Uri;

use crate::link::Address;

/// The address of the server of this URL.
pub(crate) fn address(uri: &Uri) -> io::Result<Address> {
    let is_secure = matches!(uri.scheme_str(), Some("https" | "wss"));
    // Brackets around an address of version 6 belong to the URL.
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    let found = (host, port).to_socket_addrs().and_then(|mut all| all.next().ok_or(io::ErrorKind::NotFound.into()));
    let socket = found.map_err(|error| {
        io::Error::new(error.kind(), format!("can't find the address of {host}: {error}: is the name right?"))
    })?;
    let secure = match is_secure {
        false => None,
        true => {
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            Some((Arc::new(config()?), name))
        }
    };
    Ok(Address { socket, secure })
}

fn config() -> io::Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let trusting = Arc::new(Trusting(provider.signature_verification_algorithms));
    let builder = ClientConfig::builder_with_provider(provider as Arc<CryptoProvider>);
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    Ok(builder.dangerous().with_custom_certificate_verifier(trusting).with_no_client_auth())
}

/// Takes any certificate, of a peer that has its key.
#[derive(Debug)]
struct Trusting(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
