//! The echo server on tokio's current-thread runtime. `echo-tokio server ADDR cpu=0`

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

#[path = "pin.rs"]
mod pin;

fn main() {
    let addr = pin::to_cpu_and_get_addr();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        let listener = TcpListener::bind(addr).await.unwrap();
        println!("listening");
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            tokio::task::spawn_local(async move {
                let mut buf = vec![0; 4096];
                while let Ok(n) = stream.read(&mut buf).await {
                    if n == 0 || stream.write_all(&buf[..n]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
}
