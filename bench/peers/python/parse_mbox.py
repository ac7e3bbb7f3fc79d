"""Parses a mailbox with the standard library and decodes every part. It keeps nothing.

    python3 parse_mbox.py FILE

Prints one JSON object: how many messages and how many decoded bytes there were.
"""

import json
import mailbox
import sys
from email import message_from_binary_file
from email.policy import default


def main(path: str) -> None:
    messages = decoded = faults = 0
    box = mailbox.mbox(path, factory=lambda file: message_from_binary_file(file, policy=default), create=False)
    for message in box:
        messages += 1
        # The headers that an entry is made of.
        for name in ("from", "to", "subject", "date", "message-id", "in-reply-to", "references"):
            try:
                str(message.get(name))
            except Exception:
                faults += 1
        for part in message.walk():
            if part.is_multipart():
                continue
            payload = part.get_payload(decode=True) or b""
            decoded += len(payload)
            if part.get_content_maintype() == "text":
                try:
                    payload.decode(part.get_content_charset("utf-8"), "replace")
                except LookupError:
                    faults += 1
    print(json.dumps({"messages": messages, "decoded_bytes": decoded, "faults": faults}))


if __name__ == "__main__":
    main(sys.argv[1])
