//! A server that misbehaves in every way a download has to survive, and keeps count of every byte it sent.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// How a source lies when it is asked for a range.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Lie {
    /// 206 with a range that begins elsewhere, and bytes from there.
    OtherStart,
    /// 206 with another whole length.
    OtherTotal,
    /// 206 without a Content-Range.
    NoContentRange,
    /// 206 whose body is longer than its Content-Range.
    LongerBody,
    /// 206 of another version.
    OtherVersion,
    /// 200 with everything.
    Everything,
    /// 416 although the range is there.
    NotSatisfiable,
}

/// How the end of a body is told.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Framing {
    Length,
    Chunked,
    Close,
}

/// What is at a path.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) body: Vec<u8>,
    pub(crate) etag: Option<String>,
    pub(crate) last_modified: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) ranges: bool,
    pub(crate) framing: Framing,
    pub(crate) lie: Option<Lie>,
    /// The status that HEAD gets; `None` for the honest one.
    pub(crate) head: Option<u16>,
    /// The length that HEAD tells; `None` for the honest one.
    pub(crate) head_length: Option<u64>,
    /// Answers to the next requests, before the honest ones.
    pub(crate) answers: VecDeque<(u16, Vec<(String, String)>)>,
    /// After how many bytes of a body the next connections break.
    pub(crate) cuts: VecDeque<usize>,
    /// After how many bytes of a body the next connections bring nothing more, without breaking.
    pub(crate) stalls: VecDeque<usize>,
    /// Every GET has another tag.
    pub(crate) new_etags: bool,
    /// One byte, then this pause.
    pub(crate) drips: Option<Duration>,
    /// If-Range is not looked at.
    pub(crate) ignores_if_range: bool,
}

impl Source {
    pub(crate) fn of(body: &[u8]) -> Self {
        Self {
            body: body.to_vec(),
            etag: Some("\"v1\"".to_owned()),
            last_modified: None,
            headers: Vec::new(),
            ranges: true,
            framing: Framing::Length,
            lie: None,
            head: None,
            head_length: None,
            answers: VecDeque::new(),
            cuts: VecDeque::new(),
            stalls: VecDeque::new(),
            new_etags: false,
            drips: None,
            ignores_if_range: false,
        }
    }

    pub(crate) fn cut(mut self, after: &[usize]) -> Self {
        self.cuts = after.iter().copied().collect();
        self
    }

    pub(crate) fn stall(mut self, after: &[usize]) -> Self {
        self.stalls = after.iter().copied().collect();
        self
    }

    pub(crate) fn answer(mut self, status: u16, headers: &[(&str, &str)]) -> Self {
        self.answers.push_back((status, owned(headers)));
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

fn owned(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    headers.iter().map(own).collect()
}

/// One request, and what was sent to it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Served {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) range: Option<String>,
    pub(crate) if_range: Option<String>,
    pub(crate) status: u16,
    /// Where the body began in the content, and how many bytes of it were sent.
    pub(crate) from: u64,
    pub(crate) sent: u64,
}

#[derive(Default)]
struct State {
    sources: HashMap<String, Source>,
    served: Vec<Served>,
    open: usize,
    most_open: usize,
    requests: usize,
}

/// The server.
pub(crate) struct Hostile {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Hostile {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = shared.clone();
                tokio::spawn(async move { serve(stream, &state).await });
            }
        });
        Self {
            address,
            state,
            task,
        }
    }

    pub(crate) fn put(&self, path: &str, source: Source) -> String {
        let mut state = self.state.lock().unwrap();
        state.sources.insert(path.to_owned(), source);
        self.url(path)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The GETs of a path, in order.
    pub(crate) fn gets(&self, path: &str) -> Vec<Served> {
        let state = self.state.lock().unwrap();
        let is_get = |served: &&Served| served.path == path && served.method == "GET";
        state.served.iter().filter(is_get).cloned().collect()
    }

    pub(crate) fn requests(&self) -> usize {
        self.state.lock().unwrap().requests
    }

    pub(crate) fn most_open(&self) -> usize {
        self.state.lock().unwrap().most_open
    }

    /// Checks that no byte of a path was sent twice, and that all of it was sent.
    pub(crate) fn assert_sent_once(&self, path: &str, length: usize) {
        let mut next = 0;
        for get in self.gets(path).iter().filter(|get| get.sent > 0) {
            assert_eq!(
                get.from, next,
                "a range was sent twice or left out: {get:?}"
            );
            next = get.from + get.sent;
        }
        assert_eq!(next, length as u64, "all of it was sent");
    }
}

fn count(state: &Mutex<State>, is_opened: bool) {
    let mut state = state.lock().unwrap();
    if is_opened {
        state.open += 1;
        state.most_open = state.most_open.max(state.open);
    } else {
        state.open -= 1;
    }
}

/// What is sent for one request.
struct Plan {
    status: u16,
    headers: Vec<(String, String)>,
    from: usize,
    body: Vec<u8>,
    cut: Option<usize>,
    stall: Option<usize>,
    drips: Option<Duration>,
    framing: Framing,
}

async fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    let mut text = Vec::new();
    let mut byte = [0; 4096];
    while !text.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut byte).await {
            Ok(count) if count > 0 => text.extend_from_slice(&byte[..count]),
            _ => return,
        }
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut words = text.split_whitespace();
    let (method, path) = (
        words.next().unwrap().to_owned(),
        words.next().unwrap().to_owned(),
    );
    let header = |name: &str| {
        text.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found
                .eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    };
    let (range, if_range) = (header("range"), header("if-range"));
    let plan = {
        let mut state = state.lock().unwrap();
        state.requests += 1;
        let number = state.requests;
        match state.sources.get_mut(&path) {
            Some(source) => plan(
                source,
                &method,
                (range.as_deref(), if_range.as_deref()),
                number,
            ),
            None => bare(404, Vec::new()),
        }
    };
    let index = {
        let mut state = state.lock().unwrap();
        state.served.push(Served {
            method: method.clone(),
            path,
            range,
            if_range,
            status: plan.status,
            from: plan.from as u64,
            sent: 0,
        });
        state.served.len() - 1
    };
    let sent = |bytes: usize| state.lock().unwrap().served[index].sent += bytes as u64;
    count(state, true);
    let _broken = send(&mut stream, &method, plan, (sent, || count(state, false))).await;
}

fn bare(status: u16, headers: Vec<(String, String)>) -> Plan {
    Plan {
        status,
        headers,
        from: 0,
        body: Vec::new(),
        cut: None,
        stall: None,
        drips: None,
        framing: Framing::Length,
    }
}

#[expect(clippy::too_many_lines, reason = "one place for every misbehaviour")]
fn plan(
    source: &mut Source,
    method: &str,
    (range, if_range): (Option<&str>, Option<&str>),
    number: usize,
) -> Plan {
    if let Some((status, headers)) = source.answers.pop_front() {
        return bare(status, headers);
    }
    let mut headers = source.headers.clone();
    let etag = if source.new_etags {
        Some(format!("\"v{number}\""))
    } else {
        source.etag.clone()
    };
    let mut add = |name: &str, value: &str| headers.push((name.to_owned(), value.to_owned()));
    if let Some(etag) = &etag {
        add("ETag", etag);
    }
    if let Some(modified) = &source.last_modified {
        add("Last-Modified", modified);
        add("Date", "Wed, 21 Oct 2015 07:28:00 GMT");
    }
    if source.ranges {
        add("Accept-Ranges", "bytes");
    }
    let total = source.body.len();
    if method == "HEAD" {
        let length = source.head_length.unwrap_or(total as u64);
        add("Content-Length", &length.to_string());
        return Plan {
            framing: Framing::Close,
            ..bare(source.head.unwrap_or(200), headers)
        };
    }
    let is_same = source.ignores_if_range
        || if_range.is_none()
        || if_range == etag.as_deref()
        || if_range == source.last_modified.as_deref();
    let start = range
        .filter(|_| source.ranges && is_same)
        .and_then(|range| {
            range
                .strip_prefix("bytes=")?
                .split('-')
                .next()?
                .parse::<usize>()
                .ok()
        });
    let end = match range.and_then(|range| range.rsplit_once('-')) {
        Some((_, last)) if start.is_some() => last.parse::<usize>().map_or(total, |last| last + 1),
        _ => total,
    };
    let lie = source.lie.filter(|_| start.is_some());
    let (cut, stall) = (source.cuts.pop_front(), source.stalls.pop_front());
    let framing = source.framing;
    let drips = source.drips;
    let whole = |status, headers, from: usize, end: usize| Plan {
        status,
        headers,
        from,
        body: source.body[from.min(total)..end.min(total)].to_vec(),
        cut,
        stall,
        drips,
        framing,
    };
    let Some(from) = start.filter(|_| lie != Some(Lie::Everything)) else {
        return whole(200, headers, 0, total);
    };
    if from >= total || lie == Some(Lie::NotSatisfiable) {
        headers.push(("Content-Range".to_owned(), format!("bytes */{total}")));
        return bare(416, headers);
    }
    let (mut first, mut told_total, mut told_end) = (from, total, end);
    match lie {
        Some(Lie::OtherStart) => first = from.saturating_sub(1),
        Some(Lie::OtherTotal) => told_total += 1,
        Some(Lie::LongerBody) => told_end = end - 1,
        Some(Lie::OtherVersion) => {
            headers.retain(|(name, _)| name != "ETag");
            headers.push(("ETag".to_owned(), "\"other\"".to_owned()));
        }
        _ => {}
    }
    if lie != Some(Lie::NoContentRange) {
        let value = format!("bytes {first}-{}/{told_total}", told_end - 1);
        headers.push(("Content-Range".to_owned(), value));
    }
    whole(206, headers, first, end)
}

async fn send(
    stream: &mut TcpStream,
    method: &str,
    plan: Plan,
    (sent, ends): (impl Fn(usize), impl Fn()),
) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Whatever\r\nConnection: close\r\n", plan.status);
    let framing = match plan.framing {
        Framing::Length => format!("Content-Length: {}\r\n", plan.body.len()),
        Framing::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
        Framing::Close => String::new(),
    };
    head.push_str(&framing);
    let lines = plan.headers.iter();
    head.extend(lines.map(|(name, value)| format!("{name}: {value}\r\n")));
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await?;
    if method == "HEAD" {
        ends();
        return stream.shutdown().await;
    }
    let stop = plan.cut.or(plan.stall).unwrap_or(usize::MAX);
    let body = &plan.body[..plan.body.len().min(stop)];
    let size = if plan.drips.is_some() { 1 } else { 16 << 10 };
    let mut left = body.chunks(size).count();
    if left == 0 {
        ends();
    }
    for chunk in body.chunks(size) {
        left -= 1;
        if left == 0 {
            // Whoever has the last byte may ask again at once.
            ends();
        }
        if plan.framing == Framing::Chunked {
            stream
                .write_all(format!("{:x}\r\n", chunk.len()).as_bytes())
                .await?;
        }
        stream.write_all(chunk).await?;
        if plan.framing == Framing::Chunked {
            stream.write_all(b"\r\n").await?;
        }
        sent(chunk.len());
        if let Some(pause) = plan.drips {
            tokio::time::sleep(pause).await;
        }
    }
    if plan.cut.is_some_and(|cut| cut < plan.body.len()) {
        return stream.shutdown().await;
    }
    if plan.stall.is_some_and(|stall| stall < plan.body.len()) {
        // Until the other side has gone.
        let mut rest = [0; 1];
        let _gone = stream.read(&mut rest).await;
        return Ok(());
    }
    if plan.framing == Framing::Chunked {
        stream.write_all(b"0\r\n\r\n").await?;
    }
    stream.shutdown().await
}
