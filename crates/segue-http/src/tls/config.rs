//! The usual configurations, from certificates and keys in PEM. Used by programs.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// The only protocol of this crate, by its registered name.
const HTTP_1_1: &[u8] = b"http/1.1";

/// A server's configuration from PEM: its chain of certificates, its own first, and the private
/// key.
///
/// Versions 1.2 and 1.3, of the process' cryptography if rustls was told of one, else of ring's;
/// `http/1.1` by ALPN; no certificates of clients; and tickets, so that a client can resume its
/// session without the server keeping anything. For all else, change the fields, or build one by
/// [`rustls`](crate::tls::rustls). Never waits.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if one of the two has no certificate or key, or they don't
/// belong together.
///
/// ```
/// use segue_http::tls;
///
/// let chain = include_bytes!("../../tests/tls/fixtures/server.pem");
/// let key = include_bytes!("../../tests/tls/fixtures/server.key");
/// let config = tls::server_config(chain, key)?;
/// assert_eq!(config.alpn_protocols, [b"http/1.1"]);
/// assert!(tls::server_config(key, chain).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn server_config(chain: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> io::Result<ServerConfig> {
    let chain = certificates(chain.as_ref())?;
    let key =
        PrivateKeyDer::from_pem_slice(key.as_ref()).map_err(|error| invalid(format!("no private key: {error}")))?;
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(invalid)?.with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key).map_err(invalid)?;
    config.alpn_protocols = vec![HTTP_1_1.to_vec()];
    config.ticketer = ring::Ticketer::new().map_err(io::Error::other)?;
    Ok(config)
}

/// As [`server_config`], from two files.
///
/// # Cancellation
/// *No effect*: the files are read by std, which blocks the thread.
///
/// # Errors
/// Those of reading; then as for [`server_config`].
///
/// ```no_run
/// use segue_http::tls;
///
/// let config = tls::server_config_from_files("fullchain.pem", "privkey.pem")?;
/// # let _ = config;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn server_config_from_files(chain: impl AsRef<Path>, key: impl AsRef<Path>) -> io::Result<ServerConfig> {
    server_config(read(chain.as_ref())?, read(key.as_ref())?)
}

/// A client's configuration that trusts servers with a certificate of these authorities, in PEM.
///
/// Versions and cryptography are those of [`server_config`]; `http/1.1` by ALPN; sessions are
/// resumed. Never waits.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if there is no certificate in there.
///
/// ```
/// use segue_http::tls;
///
/// let config = tls::client_config(include_bytes!("../../tests/tls/fixtures/server.pem"))?;
/// assert_eq!(config.alpn_protocols, [b"http/1.1"]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn client_config(authorities: impl AsRef<[u8]>) -> io::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authorities.as_ref())? {
        roots.add(certificate).map_err(invalid)?;
    }
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let mut config = builder.map_err(invalid)?.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![HTTP_1_1.to_vec()];
    Ok(config)
}

fn provider() -> Arc<CryptoProvider> {
    CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(ring::default_provider()))
}

fn certificates(pem: &[u8]) -> io::Result<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(invalid)?;
    if certificates.is_empty() { Err(invalid("no certificate there")) } else { Ok(certificates) }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}
