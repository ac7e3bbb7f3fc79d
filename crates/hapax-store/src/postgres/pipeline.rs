//! Several requests on one connection in one flight. The server still answers them one after the other.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

/// A request that is sent when it is first polled, as the driver's are.
pub(super) type Request<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Sends every request, in order, before waiting for the first answer.
pub(super) async fn pipeline<T>(mut requests: Vec<Request<'_, T>>) -> Vec<T> {
    let mut early = Vec::with_capacity(requests.len());
    std::future::poll_fn(|context| {
        early.clear();
        for request in &mut requests {
            early.push(match request.as_mut().poll(context) {
                Poll::Ready(answer) => Some(answer),
                Poll::Pending => None,
            });
        }
        Poll::Ready(())
    })
    .await;
    let mut answers = Vec::with_capacity(requests.len());
    for (request, early) in requests.into_iter().zip(early) {
        answers.push(match early {
            Some(answer) => answer,
            None => request.await,
        });
    }
    answers
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn all_is_sent_in_order_before_the_first_wait() {
        let sent = Mutex::new(Vec::new());
        let requests = (0..3).map(|number| -> Request<'_, usize> {
            let sent = &sent;
            Box::pin(async move {
                sent.lock().unwrap().push(number);
                tokio::task::yield_now().await;
                assert_eq!(
                    sent.lock().unwrap().len(),
                    3,
                    "nothing waits before all is sent"
                );
                number
            })
        });
        assert_eq!(pipeline(requests.collect()).await, [0, 1, 2]);
        assert_eq!(*sent.lock().unwrap(), [0, 1, 2]);
    }
}
