// What processes of std's do: included once with `std` as `like`, and once with `segue_std`.

use like::process::{Command, ExitStatus, Stdio};
use like::thread;
use std::io::{Read, Write};

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

pub fn output_is_collected_where_nothing_else_was_said() {
    let mut command = shell("cat; echo out; echo err >&2; exit 3");
    let output = command.output().unwrap();
    assert_eq!((&*output.stdout, &*output.stderr, output.status.code()), (&b"out\n"[..], &b"err\n"[..], Some(3)));
    // What was said stays said.
    let silent = shell("echo out; echo err >&2").stdout(Stdio::null()).output().unwrap();
    assert_eq!((&*silent.stdout, &*silent.stderr), (&b""[..], &b"err\n"[..]));
    // And what was not is not said afterwards: there is no pipe.
    let child = shell("true").stdout(Stdio::piped()).spawn().unwrap();
    assert!(child.stdin.is_none() && child.stdout.is_some() && child.stderr.is_none());
    assert!(child.wait_with_output().unwrap().stdout.is_empty());
    let mut again = command.spawn().unwrap();
    assert!(again.stdout.is_none() && again.stdin.is_none());
    assert_eq!(again.wait().unwrap().code(), Some(3));
}

pub fn one_child_reads_what_another_writes() {
    let mut first = shell("echo b; echo a").stdout(Stdio::piped()).spawn().unwrap();
    let mut sort = Command::new("sort");
    sort.stdin(first.stdout.take().unwrap()).stdout(Stdio::piped());
    let mut second = sort.spawn().unwrap();
    drop(sort);
    let mut sorted = String::new();
    second.stdout.take().unwrap().read_to_string(&mut sorted).unwrap();
    assert_eq!(sorted, "a\nb\n");
    assert!(first.wait().unwrap().success() && second.wait().unwrap().success());
    let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    cat.stdin.as_mut().unwrap().write_all(b"hello").unwrap();
    // It closes the input first.
    assert_eq!(cat.wait_with_output().unwrap().stdout, b"hello");
}

pub fn arguments_environment_and_directory_are_handed_on() {
    let mut command = shell("echo $1 $NAME $GONE $(pwd)");
    command.arg("sh").arg("one").env("NAME", "two").envs([("GONE", "no")]).env_remove("GONE").current_dir("/");
    assert_eq!(command.output().unwrap().stdout, b"one two /\n");
    assert_eq!(command.get_program(), "sh");
    assert_eq!(command.get_args().count(), 4);
    assert_eq!(command.get_envs().count(), 2);
    assert_eq!(command.get_current_dir(), Some(std::path::Path::new("/")));
    let path = std::env::var_os("PATH").unwrap();
    let bare = shell("env | grep -c NAME").env("NAME", "x").env_clear().env("PATH", path).output().unwrap();
    assert_eq!(bare.stdout, b"0\n");
    assert!(format!("{command:?}").contains("NAME"));
}

pub fn a_child_is_killed_asked_for_and_not_there() {
    let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
    assert!(sleeper.id() > 0 && sleeper.try_wait().unwrap().is_none());
    sleeper.kill().unwrap();
    let status: ExitStatus = sleeper.wait().unwrap();
    assert_eq!((status.success(), status.code()), (false, None));
    assert_eq!(sleeper.try_wait().unwrap(), Some(status));
    sleeper.kill().unwrap();
    for error in [
        Command::new("there/is/none").spawn().map(|_| ()),
        Command::new("there/is/none").status().map(|_| ()),
        Command::new("there/is/none").output().map(|_| ()),
    ] {
        assert_eq!(error.unwrap_err().kind(), std::io::ErrorKind::NotFound);
    }
    assert!(Command::new("true").status().unwrap().success());
}

#[allow(unsafe_code)] // `pre_exec` is.
pub fn a_child_has_the_name_that_it_is_given_and_is_prepared_by_a_closure() {
    use like::os::unix::process::CommandExt;
    let mut command = Command::new("sh");
    command.args(["-c", "echo $0"]).arg0("named").process_group(0);
    // SAFETY: the closure calls nothing.
    unsafe { command.pre_exec(|| Ok(())) };
    assert_eq!(command.output().unwrap().stdout, b"named\n");
    let error = Command::new("there/is/none").exec();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

pub fn a_pipe_ends_with_its_writer() {
    let (mut reader, mut writer) = like::io::pipe().unwrap();
    let wrote = thread::spawn(move || writer.write_all(b"through").unwrap());
    let mut read = String::new();
    reader.read_to_string(&mut read).unwrap();
    wrote.join().unwrap();
    assert_eq!(read, "through");
}

pub fn streams_of_one_machine_are_read_while_others_write() {
    use like::os::unix::net::{UnixDatagram, UnixStream};
    let (mut one, mut other) = UnixStream::pair().unwrap();
    let answers = thread::spawn(move || {
        let mut asked = [0; 3];
        other.read_exact(&mut asked).unwrap();
        other.write_all(&asked).unwrap();
    });
    one.write_all(b"ask").unwrap();
    let mut answer = String::new();
    one.read_to_string(&mut answer).unwrap();
    answers.join().unwrap();
    assert_eq!(answer, "ask");
    let (one, other) = UnixDatagram::pair().unwrap();
    let sends = thread::spawn(move || other.send(b"packet").unwrap());
    assert_eq!((one.recv(&mut [0; 9]).unwrap(), sends.join().unwrap()), (6, 6));
}

#[allow(unsafe_code)] // `from_raw_fd` is.
#[allow(clippy::unnecessary_fallible_conversions)] // With std's names; with ours it can fail.
pub fn a_listener_is_made_of_its_descriptor() {
    use like::net::{TcpListener, TcpStream};
    use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let fd = OwnedFd::try_from(listener).unwrap().into_raw_fd();
    // SAFETY: the descriptor is nobody else's.
    let listener = unsafe { TcpListener::from_raw_fd(fd) };
    let accepts = thread::spawn(move || listener.accept().unwrap().0.write_all(b"hello").unwrap());
    let mut text = String::new();
    TcpStream::connect(address).unwrap().read_to_string(&mut text).unwrap();
    accepts.join().unwrap();
    assert_eq!(text, "hello");
}
