//! Options that are set before a socket is bound or connected.

use crate::common;

use common::everywhere;
use segue_io::net::{Socket, TcpListener};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

const HOME: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

#[test]
fn a_listener_and_a_stream_are_built() {
    everywhere(|| {
        let socket = Socket::tcp_v4().unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&HOME).unwrap();
        let listener = socket.listen(8).unwrap();
        let socket = Socket::tcp_v4().unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_ttl(7).unwrap();
        socket.bind(&HOME).unwrap();
        let mut client = socket.connect(&listener.local_addr().unwrap()).unwrap();
        assert!(client.nodelay().unwrap());
        assert_eq!(client.ttl().unwrap(), 7);
        let (mut server, peer) = listener.accept().unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
        client.write_all(b"x").unwrap();
        assert_eq!(server.read(&mut [0; 4]).unwrap(), 1);
    });
}

#[test]
fn options_are_those_of_the_kernel() {
    let socket = Socket::for_addr(&HOME).unwrap();
    let kernels: &socket2::Socket = {
        let tcp: &Socket<segue_io::net::protocol::Tcp> = &socket;
        tcp.as_socket2()
    };
    assert!(kernels.nonblocking().unwrap());
    socket.set_reuse_address(true).unwrap();
    socket.set_reuse_port(true).unwrap();
    socket.set_keepalive(Some(Duration::from_secs(60))).unwrap();
    socket.set_linger(Some(Duration::ZERO)).unwrap();
    socket.set_send_buffer_size(20_000).unwrap();
    socket.set_recv_buffer_size(30_000).unwrap();
    assert!(kernels.reuse_address().unwrap() && kernels.reuse_port().unwrap() && kernels.keepalive().unwrap());
    assert_eq!(kernels.linger().unwrap(), Some(Duration::ZERO));
    assert_eq!(kernels.tcp_keepalive_time().unwrap(), Duration::from_secs(60));
    assert!((20_000..=40_000).contains(&kernels.send_buffer_size().unwrap()));
    assert!((30_000..=60_000).contains(&kernels.recv_buffer_size().unwrap()));
    socket.set_keepalive(None).unwrap();
    assert!(!kernels.keepalive().unwrap());
    assert!(socket.set_only_v6(true).is_err(), "it is for IPv4");
    if let Ok(six) = Socket::tcp_v6() {
        six.set_only_v6(true).unwrap();
        assert!(six.as_socket2().only_v6().unwrap());
    }
    assert!(format!("{socket:?}").contains("TcpStream"));
}

#[test]
fn several_listeners_share_a_port_if_all_of_them_say_so() {
    let shared = |addr| {
        let socket = Socket::tcp_v4().unwrap();
        socket.set_reuse_port(true).unwrap();
        socket.bind(addr).map(|()| socket.listen(16).unwrap())
    };
    let first = shared(&HOME).unwrap();
    let addr = first.local_addr().unwrap();
    let second = shared(&addr).unwrap();
    assert_eq!(second.local_addr().unwrap(), addr);
    assert_eq!(TcpListener::bind(addr).unwrap_err().kind(), ErrorKind::AddrInUse);
}

#[test]
#[cfg(target_os = "linux")]
fn unix_sockets_are_built_too() {
    use segue_io::net::UnixSeqpacketListener;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr as UnixAddr;
    everywhere(|| {
        let name = |kind: &str| UnixAddr::from_abstract_name(format!("segue-{kind}-{}", std::process::id())).unwrap();
        let (packets, datagrams) = (name("built"), name("builds"));
        let socket = Socket::unix_seqpacket().unwrap();
        socket.bind(&packets).unwrap();
        let listener: UnixSeqpacketListener = socket.listen(1).unwrap();
        let client = Socket::unix_seqpacket().unwrap().connect(&packets).unwrap();
        client.send(b"x").unwrap();
        assert_eq!(listener.accept().unwrap().0.recv(&mut [0; 4]).unwrap(), 1);

        let socket = Socket::unix_datagram().unwrap();
        socket.set_recv_buffer_size(10_000).unwrap();
        socket.bind(&datagrams).unwrap();
        let receiver = socket.into_packets();
        Socket::unix_datagram().unwrap().into_packets().send_to_addr(b"x", &datagrams).unwrap();
        assert_eq!(receiver.recv(&mut [0; 4]).unwrap(), 1);
        let nobody = Socket::unix_stream().unwrap().connect(&name("nobody"));
        assert_eq!(nobody.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_socket_is_bound_to_a_device() {
    let socket = Socket::udp_v4().unwrap();
    socket.set_broadcast(true).unwrap();
    match socket.bind_device(Some("lo")) {
        Ok(()) => {
            assert_eq!(socket.as_socket2().device().unwrap().as_deref(), Some(&b"lo\0"[..2]));
            socket.bind_device(None).unwrap();
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::PermissionDenied),
    }
    assert!(socket.bind_device(Some("no such device")).is_err());
}
