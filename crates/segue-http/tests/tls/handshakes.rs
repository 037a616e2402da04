//! What the two ends of a handshake agree on, or not.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;

use segue_http::tls::rustls::pki_types::PrivateKeyDer;
use segue_http::tls::rustls::pki_types::pem::PemObject;
use segue_http::tls::rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use segue_http::tls::rustls::sign::CertifiedKey;
use segue_http::tls::rustls::{ClientConfig, HandshakeKind, ProtocolVersion, RootCertStore, ServerConfig};
use segue_http::{Connection, Transport, tls};

use crate::pipe::{Pipe, pipe};
use crate::{
    CHAIN, CLIENT_CHAIN, CLIENT_KEY, KEY, VERSIONS, accept, beside, client_config, client_of, connect, everywhere,
    pair, server_config,
};

fn shake(client: &mut tls::Stream<Pipe>, server: &mut tls::Stream<Pipe>) -> [Result<(), ErrorKind>; 2] {
    let (one, other) = beside(|| server.handshake(), || client.handshake());
    [other, one].map(|result| result.map_err(|error| error.kind()))
}

#[test]
fn the_session_is_a_property_of_the_connection() {
    everywhere(&|| {
        for (version, number) in VERSIONS.into_iter().zip([ProtocolVersion::TLSv1_2, ProtocolVersion::TLSv1_3]) {
            let mut config = client_of(version);
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            let (mut client, mut server) = pair(config);
            assert!(server.session().is_none() && server.connection().get::<tls::Session>().is_none());
            assert!(server.is_secure());
            assert_eq!(shake(&mut client, &mut server), [Ok(()), Ok(())]);
            for facts in [client.connection(), server.connection()] {
                assert!(Connection::is_secure(&facts));
                let session: &tls::Session = facts.get().unwrap();
                assert_eq!(session.protocol_version(), number);
                assert!(session.cipher_suite().as_str().is_some());
                assert_eq!(session.alpn_protocol(), Some(&b"http/1.1"[..]));
                assert_eq!(session.server_name(), Some("localhost"));
            }
            assert_eq!(client.session().unwrap().peer_certificates().len(), 1);
            assert_eq!(server.session().unwrap().peer_certificates().len(), 0);
        }
    });
}

#[test]
fn a_client_without_a_name_has_none() {
    let (one, other) = pipe();
    let config = Arc::new(client_config());
    let mut client = tls::Stream::connect(one, config, "127.0.0.1".try_into().unwrap()).unwrap();
    let mut server = accept(other, server_config());
    assert_eq!(shake(&mut client, &mut server), [Ok(()), Ok(())]);
    assert_eq!(server.session().unwrap().server_name(), None);
}

/// A server that asks its clients for certificates.
fn asking() -> ServerConfig {
    let provider = Arc::clone(server_config().crypto_provider());
    let mut roots = RootCertStore::empty();
    roots.add(PemObject::from_pem_slice(CLIENT_CHAIN).unwrap()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build().unwrap();
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let chain = vec![PemObject::from_pem_slice(CHAIN).unwrap()];
    builder.with_client_cert_verifier(verifier).with_single_cert(chain, key).unwrap()
}

fn known(version: &'static tls::rustls::SupportedProtocolVersion) -> ClientConfig {
    let provider = Arc::clone(client_config().crypto_provider());
    let mut roots = RootCertStore::empty();
    roots.add(PemObject::from_pem_slice(CHAIN).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
    let chain = vec![PemObject::from_pem_slice(CLIENT_CHAIN).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(CLIENT_KEY).unwrap();
    builder.with_root_certificates(roots).with_client_auth_cert(chain, key).unwrap()
}

#[test]
fn a_client_shows_its_certificate_where_the_server_asks() {
    for version in VERSIONS {
        let (one, other) = pipe();
        let (mut client, mut server) = (connect(one, known(version)), accept(other, asking()));
        assert_eq!(shake(&mut client, &mut server), [Ok(()), Ok(())]);
        let theirs = server.session().unwrap().peer_certificates().to_vec();
        assert_eq!(theirs, [PemObject::from_pem_slice(CLIENT_CHAIN).unwrap()]);
        // One that has none.
        let (one, other) = pipe();
        let (mut client, mut server) = (connect(one, client_of(version)), accept(other, asking()));
        let [_, refused] = shake(&mut client, &mut server);
        assert_eq!(refused, Err(ErrorKind::InvalidData));
        assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}

#[test]
fn a_server_that_is_not_trusted_is_refused() {
    let (one, other) = pipe();
    let mut client = connect(one, tls::client_config(CLIENT_CHAIN).unwrap());
    let mut server = accept(other, server_config());
    assert_eq!(shake(&mut client, &mut server), [Err(ErrorKind::InvalidData), Err(ErrorKind::InvalidData)]);
    // So is one of another name.
    let (one, other) = pipe();
    let config = Arc::new(client_config());
    let mut client = tls::Stream::connect(one, config, "elsewhere.test".try_into().unwrap()).unwrap();
    let mut server = accept(other, server_config());
    assert_eq!(shake(&mut client, &mut server)[0], Err(ErrorKind::InvalidData));
}

#[test]
fn sessions_are_resumed() {
    for version in VERSIONS {
        let (config, acceptor) = (Arc::new(client_of(version)), tls::Acceptor::new(server_config()).unwrap());
        let server = Arc::new(std::sync::Mutex::new(Vec::new()));
        for _ in 0..2 {
            let (one, other) = pipe();
            let name = "localhost".try_into().unwrap();
            let mut client = tls::Stream::connect(one, Arc::clone(&config), name).unwrap();
            let mut end = acceptor.accept(other).unwrap();
            beside(
                || {
                    end.write_all(b"x").unwrap();
                    end.shutdown_write().unwrap();
                    server.lock().unwrap().push(end.handshake_kind());
                    let name = end.session().unwrap().server_name().map(str::to_owned);
                    assert_eq!(name.as_deref(), Some("localhost"));
                },
                || assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 1),
            );
        }
        let kinds = server.lock().unwrap().clone();
        assert!(matches!(kinds[..], [Some(HandshakeKind::Full), Some(HandshakeKind::Resumed)]), "{kinds:?}");
    }
}

#[test]
fn a_panic_of_a_resolver_ends_its_own_stream() {
    #[derive(Debug)]
    struct Panics;
    impl ResolvesServerCert for Panics {
        fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
            panic!("a planned panic")
        }
    }
    everywhere(&|| {
        let mut config = server_config();
        config.cert_resolver = Arc::new(Panics);
        let (one, other) = pipe();
        let (mut client, mut server) = (connect(one, client_config()), accept(other, config));
        beside(
            move || {
                let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| server.handshake()));
                assert!(caught.is_err());
                // The queues are whole, and rustls refuses to go on.
                assert!(server.read(&mut [0]).is_err());
            },
            || assert!(client.handshake().is_err()),
        );
        let (mut client, mut server) = pair(client_config());
        assert_eq!(shake(&mut client, &mut server), [Ok(()), Ok(())]);
    });
}

#[test]
fn configurations_that_can_not_work_are_refused() {
    let error = |result: std::io::Result<ServerConfig>| result.unwrap_err().kind();
    assert_eq!(error(tls::server_config(b"", KEY)), ErrorKind::InvalidInput);
    assert_eq!(error(tls::server_config(CHAIN, b"")), ErrorKind::InvalidInput);
    assert_eq!(error(tls::server_config(CHAIN, CLIENT_KEY)), ErrorKind::InvalidInput);
    assert_eq!(error(tls::server_config_from_files("/nowhere/a.pem", "/nowhere/b.pem")), ErrorKind::NotFound);
    assert_eq!(tls::client_config(KEY).unwrap_err().kind(), ErrorKind::InvalidInput);
    let mut config = server_config();
    config.max_fragment_size = Some(1);
    assert_eq!(tls::Acceptor::new(config).unwrap_err().kind(), ErrorKind::InvalidInput);
}
