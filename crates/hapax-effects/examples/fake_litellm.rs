//! A fake provider of language models as a program of its own: behind a real LiteLLM as its upstream, or in its place.
//!
//! `cargo run -p hapax-effects --features testing --example fake_litellm -- --port 0`
//!
//! It has OpenAI's shapes and takes every key; `--litellm` gives it LiteLLM's shapes, `--key K` a key to ask for.
//! `GET /fake/counts` says what it was asked; `POST /fake/batches` with e.g. `{"fate":"expired"}` says what becomes of
//! the batches created from then on; `POST /fake/next` with e.g. `{"endpoint":"create_batch","reply":"cut-after"}` says
//! what the next such call gets; a text that holds `fake-reply:null` (or `429`, `length`, `fence`, …) gets that.

use hapax_effects::enrich::testing::{FakeLitellm, Shape};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut port, mut shape, mut key) = (0, Shape::OpenAi, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--port" => port = arguments.next().ok_or("--port needs a number")?.parse()?,
            "--key" => key = Some(arguments.next().ok_or("--key needs a text")?),
            "--litellm" => shape = Shape::LiteLlm,
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    let fake = FakeLitellm::start_as(port, shape, key.as_deref()).await?;
    println!("listening on {}", fake.base_url());
    tokio::signal::ctrl_c().await?;
    Ok(())
}
