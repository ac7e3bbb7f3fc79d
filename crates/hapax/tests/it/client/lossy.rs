//! A wire to a server that loses the first answers, after the server gave them.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::script::read_request;

pub(crate) struct Lossy {
    pub(crate) url: String,
    task: JoinHandle<()>,
}

impl Lossy {
    /// Loses the answers of the first `losses` connections to `server`.
    pub(crate) async fn start(server: SocketAddr, losses: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            let mut count = 0;
            while let Ok((client, _)) = listener.accept().await {
                count += 1;
                connections.spawn(carry(client, server, count <= losses));
            }
        });
        Self { url, task }
    }
}

impl Drop for Lossy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(mut client: TcpStream, server: SocketAddr, lose: bool) {
    let mut server = TcpStream::connect(server).await.unwrap();
    if !lose {
        let _closed = copy_bidirectional(&mut client, &mut server).await;
        return;
    }
    let (request, _) = read_request(&mut client)
        .await
        .expect("the request comes whole");
    server.write_all(&request).await.unwrap();
    // The first byte of the answer: the server has recorded it.
    server.read_u8().await.unwrap();
}
