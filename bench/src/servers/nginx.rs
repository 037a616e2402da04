//! nginx with one process, which serves the common text as a file. This process finds a port, tells
//! its address, and becomes nginx. Used by the contest `web`.

use super::process::FOLDER;
use super::session::TEXT;
use super::{ANYWHERE, announce, excuse};
use std::fs::write;
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// What it calls itself. None where it is not installed.
pub fn version() -> Option<String> {
    let said = Command::new("nginx").arg("-v").output().ok()?.stderr;
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    Some(said.strip_prefix("nginx version: nginx/").map_or(said.clone(), |number| format!("nginx {number}")))
}

/// Becomes nginx.
pub fn serve() -> io::Result<()> {
    run("", "")
}

/// Becomes nginx with TLS, and serves the files in its folder.
pub fn serve_secured() -> io::Result<()> {
    run(" ssl", "ssl_certificate chain.pem; ssl_certificate_key key.pem;")
}

fn run(kind: &str, more: &str) -> io::Result<()> {
    if version().is_none() {
        return excuse("no `nginx` on the PATH");
    }
    let folder = std::env::var_os(FOLDER).ok_or(io::ErrorKind::NotFound)?;
    let folder = Path::new(&folder);
    let address = TcpListener::bind(ANYWHERE)?.local_addr()?;
    write(folder.join("text"), TEXT)?;
    let shown = folder.display();
    let configuration = format!(
        "daemon off; master_process off; pid {shown}/pid; error_log stderr crit;\n\
         events {{ worker_connections 12000; multi_accept on; }}\n\
         http {{\n  access_log off; sendfile on; tcp_nodelay on; keepalive_requests 1000000000; open_file_cache max=8;\n  \
         default_type application/octet-stream;\n  \
         server {{ listen {address}{kind} backlog=4096; root {shown}; {more} }}\n}}\n"
    );
    write(folder.join("configuration"), configuration)?;
    announce(Ok(address))?;
    // nginx would outlive this process's parent otherwise.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let mut nginx = Command::new("nginx");
    nginx.arg("-p").arg(folder).arg("-c").arg(folder.join("configuration"));
    Err(nginx.exec())
}
