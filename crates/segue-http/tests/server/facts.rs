//! The facts of a connection, as handlers find them in the extensions of requests.

use std::io::Write;

use segue_http::{Connection, Request, Server};

use crate::{get, read_response, with_server};

#[test]
fn a_handler_finds_both_addresses_at_each_request_of_a_connection() {
    let server = Server::new(|request: &mut Request<'_>| {
        // A property of one request is not found by the next one.
        let kept = request.extensions_mut().insert(7u8);
        let facts = request.extensions().get::<Connection>().unwrap();
        assert!(!facts.is_secure());
        format!("{:?} {:?} {kept:?}", facts.peer_addr().unwrap(), facts.local_addr().unwrap())
    });
    with_server(server, |address| {
        let mut client = crate::connect(address);
        for _ in 0..3 {
            client.write_all(get("/").as_bytes()).unwrap();
            let said = read_response(&client);
            let expected = format!("{:?} {address:?} None", client.local_addr().unwrap());
            assert!(said.ends_with(&expected), "{said}");
        }
    });
}
