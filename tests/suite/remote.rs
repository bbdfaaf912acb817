//! fio's client and server, on this machine's own address.

use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::harness::{Fio, Running, on_every_fio};

on_every_fio![a_client_runs_a_job_on_a_server, a_refused_job_is_reported_to_the_client];

/// A server on a free port, ended by the test.
fn server(fio: &Fio) -> (Running, u16) {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port();
    let running = fio.args(&[format!("--server=127.0.0.1,{port}")]).plain().start();
    for _ in 0..200 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return (running, port);
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("the server does not answer");
}

fn end(server: Running) {
    server.signal(libc::SIGTERM);
    thread::sleep(Duration::from_millis(100));
    server.signal(libc::SIGKILL);
    server.finish();
}

fn a_client_runs_a_job_on_a_server(fio: &Fio) {
    let (server, port) = server(fio);
    let path = fio.path("f").display().to_string();
    let text = format!("filename={path}\nsize=256k\nrw=randwrite\nbuffer_pattern=0x66\nend_fsync=1\n[a]\n");
    let report = fio.job(&text).args(&[format!("--client=127.0.0.1,{port}")]).run();
    end(server);
    report.assert(report.code() == Some(0), "the client did not end with status 0");
    let job = report.client_jobs().iter().find(|job| job["jobname"] == "a").cloned().unwrap_or_default();
    report.assert(job["error"] == 0 && job["write"]["io_bytes"] == 256 << 10, "the client does not report the job");
    assert_eq!(fio.read("f"), vec![0x66; 256 << 10]);
}

fn a_refused_job_is_reported_to_the_client(fio: &Fio) {
    let (server, port) = server(fio);
    let path = fio.path("f").display().to_string();
    let text = format!("filename={path}\nsize=256k\nrw=write\ngpu_mem=pinned\n[a]\n");
    let report = fio.job(&text).args(&[format!("--client=127.0.0.1,{port}")]).run();
    end(server);
    let said = format!("{}{}", report.stdout, report.stderr);
    report.assert(!said.contains("bad crc"), "the protocol was broken");
    report.assert(said.contains("gpu_mem=pinned needs a GPU"), "the client does not see the line");
    report.assert(report.code().is_some(), "the client crashed");
}
