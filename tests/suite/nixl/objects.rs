//! NIXL's plugin OBJ against a small S3 server on this machine, which is Python's package moto.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use super::{MIB, Nixl};
use crate::harness::{Run, target};

/// A server with an empty bucket, gone when dropped.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start() -> Self {
        let packages = sim_env::s3_server(target()).unwrap_or_else(|why| panic!("{why}"));
        let mut server = Command::new("python3");
        server.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]).env("PYTHONPATH", packages);
        let mut process = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("python3");
        let mut said = BufReader::new(process.stderr.take().expect("piped")).lines();
        let port =
            said.by_ref().map_while(Result::ok).find_map(|line| line.split_once("Running on http://127.0.0.1:")?.1.trim().parse().ok());
        // Whoever prints has to be listened to.
        std::thread::spawn(move || said.for_each(drop));
        let server = Self { process, port: port.expect("the server says where it is") };
        assert!(server.ask("PUT", "/bucket").starts_with(b"HTTP/1.1 200"), "no bucket");
        server
    }

    /// The answer to a request without a body. The server believes whoever names a key.
    fn ask(&self, method: &str, path: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the server");
        let key = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {key}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        answer
    }

    fn job(&self, nixl: &Nixl, text: &str) -> Run {
        let params = format!("endpoint_override=http://127.0.0.1:{},scheme=http,region=us-east-1,use_virtual_addressing=false", self.port);
        let run = nixl.job(&format!("nixl_plugin=OBJ\nnixl_params={params}\n{text}"));
        run.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret").env("AWS_EC2_METADATA_DISABLED", "true")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().expect("the server was there");
        self.process.wait().expect("the server has ended");
    }
}

#[test]
fn objects_are_written_whole_and_read_in_any_blocks() {
    let (nixl, server) = (Nixl::get("3.33"), Server::start());
    let bucket = "nixl_object=bucket/of/fio-\n";
    let names = "filename=a:b:c:d\nsize=1m\niodepth=4\n";
    let write = |more: &str| server.job(&nixl, &format!("{bucket}{names}rw=write\nbs=256k\n{more}[w]\n")).run();
    write("buffer_pattern=0x41\n").ok().says_nothing().counts("write", "io_bytes", MIB);
    assert!(!nixl.fio.path("a").exists(), "fio has made a file");
    assert!(server.ask("GET", "/bucket/of/fio-c").ends_with(&[0x41; 256 << 10]), "by the server's word the object has other bytes");

    write("verify=crc32c\nverify_interval=4k\n").ok().says_nothing().counts("read", "io_bytes", MIB);
    let read = server.job(&nixl, &format!("{bucket}{names}rw=read\nbs=16k\nverify=crc32c\nverify_interval=4k\n[r]\n")).run();
    read.ok().says_nothing().counts("read", "io_bytes", MIB);

    for (text, parts) in [
        ("filename=a\nsize=256k\nrw=write\nbs=4k\n", ["OBJ writes whole objects only", "use bs=262144"]),
        ("filename=a\nrw=read\nbs=4k\n", ["OBJ does not say how large an object is", "size="]),
        ("filename=none\nsize=64k\nrw=read\nbs=4k\n", ["there is no object of/fio-none", "write it first"]),
        ("filename=a\nsize=64k\nrw=read\nbs=4k\ngpu_mem=device\n", ["gpu_mem=device contradicts nixl_plugin=OBJ", "use gpu_mem=host"]),
    ] {
        let report = server.job(&nixl, &format!("{bucket}{text}[a]\n")).run();
        report.assert(report.code() == Some(1), "fio did not end with status 1").says_one_with(&parts);
    }
    let report = server.job(&nixl, "nixl_object=none\nfilename=a\nsize=4k\nrw=write\nbs=4k\n[a]\n").run();
    report.fails_with(libc::EIO).says_one_with(&["write of a at offset 0, 4096 bytes: NIXL's plugin OBJ: NIXL status -2"]);
}
