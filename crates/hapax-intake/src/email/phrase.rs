//! The words by which mail programs mark a mail in a mail, in the languages that they speak. It looks at single lines.

const ORIGINAL: [&str; 20] = [
    "original message",
    "reply message",
    "original appointment",
    "ursprüngliche nachricht",
    "originalnachricht",
    "message d'origine",
    "message d’origine",
    "message original",
    "mensaje original",
    "mensagem original",
    "messaggio originale",
    "oorspronkelijk bericht",
    "oprindelig meddelelse",
    "opprinnelig melding",
    "ursprungligt meddelande",
    "alkuperäinen viesti",
    "исходное сообщение",
    "oryginalna wiadomość",
    "wiadomość oryginalna",
    "原始邮件",
];

const FORWARDED: [&str; 16] = [
    "forwarded message",
    "forwarded by",
    "weitergeleitete nachricht",
    "message transféré",
    "message transmis",
    "mensaje reenviado",
    "mensagem encaminhada",
    "messaggio inoltrato",
    "doorgestuurd bericht",
    "videresendt meddelelse",
    "vidarebefordrat meddelande",
    "пересылаемое сообщение",
    "переадресованное сообщение",
    "przekazana wiadomość",
    "転送されたメッセージ",
    "转发的邮件",
];

const FORWARDED_BELOW: [&str; 7] = [
    "begin forwarded message",
    "start of forwarded message",
    "anfang der weitergeleiteten",
    "début du message réexpédié",
    "début du message transféré",
    "inizio messaggio inoltrato",
    "inicio del mensaje reenviado",
];

const DEVICE: [&str; 16] = [
    "sent from my ",
    "sent from mail for ",
    "sent from yahoo",
    "sent from outlook",
    "sent via ",
    "sent with ",
    "sent using ",
    "get outlook for ",
    "von meinem ",
    "gesendet mit ",
    "gesendet von ",
    "envoyé de mon ",
    "envoyé depuis ",
    "enviado desde ",
    "inviato da ",
    "отправлено с ",
];

/// A field of the block that Outlook puts over the mail that it quotes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    From,
    Sent,
    Date,
    To,
    Subject,
}

const FIELDS: [(Field, &[&str]); 5] = [
    (
        Field::From,
        &[
            "from",
            "von",
            "de",
            "da",
            "van",
            "från",
            "fra",
            "od",
            "от",
            "发件人",
            "差出人",
            "보낸 사람",
        ],
    ),
    (
        Field::Sent,
        &[
            "sent",
            "gesendet",
            "envoyé",
            "enviado",
            "enviado el",
            "enviada em",
            "inviato",
            "verzonden",
            "skickat",
            "sendt",
            "wysłano",
            "отправлено",
            "发送时间",
            "送信日時",
            "보낸 날짜",
        ],
    ),
    (
        Field::Date,
        &[
            "date", "datum", "fecha", "data", "dato", "дата", "日期", "日付",
        ],
    ),
    (
        Field::To,
        &[
            "to",
            "cc",
            "an",
            "à",
            "para",
            "a",
            "aan",
            "till",
            "til",
            "do",
            "кому",
            "копия",
            "收件人",
            "抄送",
            "宛先",
            "받는 사람",
        ],
    ),
    (
        Field::Subject,
        &[
            "subject",
            "betreff",
            "objet",
            "asunto",
            "assunto",
            "oggetto",
            "onderwerp",
            "ämne",
            "emne",
            "temat",
            "тема",
            "主题",
            "件名",
            "제목",
        ],
    ),
];

/// The field that a line begins, bold marks passed over, and what it says.
pub(super) fn field(line: &str) -> Option<(Field, &str)> {
    let line = line.trim_start_matches([' ', '\t', '*']);
    let end = line
        .bytes()
        .take(40)
        .position(|byte| byte == b':')
        .or_else(|| line.find('：').filter(|at| *at < 40))?;
    let name = line[..end]
        .trim_matches([' ', '\u{a0}', '*'])
        .to_lowercase();
    let value = line[end..].trim_start_matches([':', '：', '*', ' ', '\u{a0}']);
    let named = FIELDS
        .iter()
        .find(|(_, names)| names.contains(&name.as_str()));
    named.map(|(field, _)| (*field, value.trim_end()))
}

/// `-----Original Message-----`.
pub(super) fn is_original(line: &str) -> bool {
    dashed(line).is_some_and(|words| ORIGINAL.contains(&words.as_str()))
}

/// `---------- Forwarded message ---------`, or `Begin forwarded message:`.
pub(super) fn is_forward(line: &str) -> bool {
    let line = line.trim();
    if line.len() > 200 {
        return false;
    }
    let below = || {
        line.ends_with(':') && {
            let lower = line.to_lowercase();
            FORWARDED_BELOW.iter().any(|words| lower.starts_with(words))
        }
    };
    dashed(line).is_some_and(|words| FORWARDED.iter().any(|known| words.starts_with(known)))
        || below()
}

/// The words between two rows of dashes, in lower case.
fn dashed(line: &str) -> Option<String> {
    let line = line.trim().trim_matches('*');
    if line.len() > 200 || !line.starts_with("--") || !line.ends_with('-') {
        return None;
    }
    Some(
        line.trim_matches(['-', ' ', '\u{a0}', '*', ':'])
            .to_lowercase(),
    )
}

/// `Sent from my iPhone`.
pub(super) fn is_device(line: &str) -> bool {
    let line = line.trim();
    if line.len() > 120 {
        return false;
    }
    let lower = line.to_lowercase();
    DEVICE.iter().any(|words| lower.starts_with(words))
}
