//! An access log as events of the `tracing` crate. Used by programs that have a subscriber.

use crate::message::exchange::Exchange;

/// An observer that emits one event for each exchange, at level `INFO` and with the target
/// `segue_http::access`. For [`Server::observe`](crate::Server::observe).
///
/// | field | value |
/// | --- | --- |
/// | `method`, `path` | of the request; an empty text if its head was not understood |
/// | `version` | such as `HTTP/1.1`; an empty text as well |
/// | `peer` | the client's address, or an empty text |
/// | `status` | a number |
/// | `received`, `sent` | bytes of the two bodies |
/// | `micros` | the time, in microseconds |
/// | `end` | how the exchange has ended, in the words of [`End::as_str`](crate::End::as_str) |
///
/// The path is without the query, which may have secrets in it. All texts but the peer's come from
/// the client, or from fixed sets: a path has no white space and no line end.
///
/// ```
/// use segue_http::{Server, trace};
/// let server = Server::new(|_| "hello").observe(trace::access_log());
/// # let _ = server;
/// ```
pub fn access_log() -> impl Fn(&Exchange<'_>) + Send + Sync + Clone + 'static {
    log
}

fn log(exchange: &Exchange<'_>) {
    let peer = exchange.connection().peer_addr();
    tracing::info!(
        target: "segue_http::access",
        method = exchange.method().map_or("", |method| method.as_str()),
        path = exchange.uri().map_or("", |uri| uri.path()),
        version = match exchange.version() {
            Some(http::Version::HTTP_10) => "HTTP/1.0",
            Some(_) => "HTTP/1.1",
            None => "",
        },
        peer = peer.map(|peer| peer.to_string()).as_deref().unwrap_or(""),
        status = exchange.status().as_u16(),
        received = exchange.received(),
        sent = exchange.sent(),
        micros = u64::try_from(exchange.duration().as_micros()).unwrap_or(u64::MAX),
        end = exchange.end().as_str(),
    );
}
