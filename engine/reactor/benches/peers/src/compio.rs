//! The echo server on compio, with its ring set up as favourably as it lets us. `echo-compio server ADDR cpu=0`

use compio::buf::{IntoInner, IoBuf};
use compio::driver::ProactorBuilder;
use compio::io::{AsyncRead, AsyncWriteExt};
use compio::net::TcpListener;
use compio::runtime::Runtime;

#[path = "pin.rs"]
mod pin;

fn main() {
    let addr = pin::to_cpu_and_get_addr();
    let mut proactor = ProactorBuilder::new();
    proactor.capacity(1024).coop_taskrun(true).taskrun_flag(true);
    let runtime = Runtime::builder().with_proactor(proactor).build().unwrap();
    runtime.block_on(async move {
        let listener = TcpListener::bind(addr).await.unwrap();
        println!("listening");
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            compio::runtime::spawn(async move {
                let mut buf = Vec::with_capacity(4096);
                loop {
                    let compio::BufResult(read, full) = stream.read(buf).await;
                    let Ok(n) = read else { return };
                    if n == 0 {
                        return;
                    }
                    let compio::BufResult(written, back) = stream.write_all(full.slice(..n)).await;
                    if written.is_err() {
                        return;
                    }
                    buf = back.into_inner();
                    buf.clear();
                }
            })
            .detach();
        }
    });
}
