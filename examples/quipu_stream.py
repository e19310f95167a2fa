#!/usr/bin/env python3
"""Reads a stream of Quipu (docs/formats/stream.md) with nothing but Python: conformance level 1.

It knows frames, metadata, plain rows, losses, indexes and ends; payloads as they are, and packed with Zstandard where this
Python has it (3.14, or the package `zstandard`). What it does not know it counts and passes over.

    python3 quipu_stream.py FILE        prints records and findings as JSON
"""

import json
import struct
import sys

SYNC = bytes.fromhex("f5515055310d0a1a")
PAD, META, DATA, LOSS, INDEX, END, AGG, CLOCK, BLOB, OPEN = range(10)
FIELDS = (
    "sync version kind codec words encoding flags stored raw producer stream epoch version_of_metadata records seq "
    "ts_first ts_last back lost payload_crc mask"
).split()
HEADER = struct.Struct("<8sBBBBHHIIQIIIIQQQQIIB")

TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    TABLE.append(n)


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def unzstd(data, size):
    """The unpacked bytes, at most one more than `size`; None if this Python has no Zstandard, no bytes if they are damaged."""
    try:
        from compression import zstd

        try:
            return zstd.ZstdDecompressor().decompress(data, size + 1)
        except zstd.ZstdError:
            return b""
    except ImportError:
        pass
    try:
        import zstandard

        try:
            with zstandard.ZstdDecompressor().stream_reader(data) as reader:
                return reader.read(size + 1)
        except zstandard.ZstdError:
            return b""
    except ImportError:
        return None


def cbor(data, at=0, depth=0):
    """The item at a place, and where the next begins."""
    if depth > 16:
        raise ValueError("nested too deeply")
    first = data[at]
    major, info = first >> 5, first & 31
    at += 1
    if info < 24:
        n = info
    elif info < 28:
        width = 1 << (info - 24)
        if at + width > len(data):
            raise ValueError("cut off")
        n = int.from_bytes(data[at : at + width], "big")
        at += width
    else:
        raise ValueError("an indefinite length")
    if major == 0:
        return n, at
    if major == 1:
        return -1 - n, at
    if major in (2, 3):
        part = data[at : at + n]
        if len(part) < n:
            raise ValueError("cut off")
        return (bytes(part) if major == 2 else part.decode("utf-8", "replace")), at + n
    if major == 4:
        items = []
        for _ in range(n):
            item, at = cbor(data, at, depth + 1)
            items.append(item)
        return items, at
    if major == 5:
        pairs = {}
        for _ in range(n):
            key, at = cbor(data, at, depth + 1)
            if isinstance(key, (list, dict)):
                raise ValueError("a key of several parts")
            value, at = cbor(data, at, depth + 1)
            pairs.setdefault(key, value)
        return pairs, at
    if major == 6:
        return cbor(data, at, depth + 1)
    return {20: False, 21: True, 22: None}.get(info, n), at


def to_cbor(value):
    """A value in its one canonical form."""

    def head(major, n):
        if n < 24:
            return bytes([major << 5 | n])
        width = next(width for width in (0, 1, 2, 3) if n < 1 << (8 << width))
        return bytes([major << 5 | 24 + width]) + n.to_bytes(1 << width, "big")

    if value is None or isinstance(value, bool):
        return {False: b"\xf4", True: b"\xf5", None: b"\xf6"}[value]
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        encoded = value.encode()
        return head(3, len(encoded)) + encoded
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(to_cbor, value))
    pairs = sorted((to_cbor(key), to_cbor(item)) for key, item in value.items())
    return head(5, len(value)) + b"".join(key + item for key, item in pairs)


def is_id(value, least=1):
    return type(value) is int and least <= value < 1 << 32


def is_listed(value, of):
    return isinstance(value, list) and all(map(of, value))


def is_field(value):
    return isinstance(value, dict) and isinstance(value.get(0), str) and is_id(value.get(1))


class Epoch:
    """What is known of one epoch: types, schemas and formats by id."""

    def __init__(self):
        self.known, self.types, self.schemas, self.formats, self.reported = {}, {}, {}, {}, 0
        self.ordinals = {}

    def add(self, ordinal, record):
        """Takes a record; gives the name of what is wrong with it."""
        if ordinal in self.known:
            return "metadata-conflict" if self.known[ordinal] != record else None
        self.known[ordinal] = record
        if not isinstance(record, dict) or not is_id(record.get(0), 0):
            return "metadata-invalid"
        place = {4: self.types, 5: self.schemas, 6: self.formats}.get(record[0])
        if place is None:
            return None
        if not self.is_right(ordinal, record):
            return "metadata-invalid"
        if place.setdefault(record[1], record) != record:
            return "metadata-conflict"
        self.ordinals.setdefault((record[0], record[1]), ordinal)
        return None

    def is_before(self, ordinal, ty):
        """Whether a type may be named by the record with this ordinal: it comes before it, or is not known."""
        return is_id(ty) and self.ordinals.get((4, ty), -1) < ordinal

    def is_right(self, ordinal, record):
        """Whether a record has what its kind needs."""
        kind, four, five = record.get(3), record.get(4), record.get(5)
        if not is_id(record.get(1), 16 if record[0] == 5 else 1):
            return False
        if record[0] == 6:
            return isinstance(record.get(2), str)

        def is_member(value):
            return is_field(value) and type(value.get(2, 0)) is int and self.is_before(ordinal, value[1])

        if record[0] == 5:
            return is_listed(kind, is_member) and type(record.get(4, 0)) is int
        if not is_id(kind) or kind > 22:
            return False

        def is_pair(value):
            return isinstance(value, list) and len(value) > 1

        if kind in (1, 2):
            return four in (8, 16, 32, 64, 128)
        if kind == 3:
            return four in (16, 32, 64)
        if kind in (5, 15, 16):
            return four in ((8, 32) if kind == 5 else (8, 16, 32, 64))
        if kind in (8, 9, 11, 12, 13, 20, 22):
            if four == record[1] or not self.is_before(ordinal, four):
                return False
            return is_id(five) if kind == 11 else kind not in (8, 9, 20) or is_listed(five, is_pair)
        if kind == 10:
            return is_id(four) and bool(five) and is_listed(five, is_member)
        if kind == 14:
            return is_listed(five, lambda pair: is_pair(pair) and self.is_before(ordinal, pair[1]))
        return kind != 7 or four is None or is_id(four)

    def hole(self, need):
        """The first ordinal below `need` that is not known and was not reported, if there is one."""
        first = next((n for n in range(self.reported, need) if n not in self.known), None)
        if first is not None:
            self.reported = need
        return first

    def size_align(self, ty, depth=0):
        """Bytes and alignment of a type in plain form."""
        if depth > 16:
            raise ValueError("nested too deeply")
        record = self.types[ty]
        kind, four, five = record[3], record.get(4), record.get(5)
        if kind in (1, 2, 3, 5, 15, 16):
            return four // 8, min(four // 8, 8)
        if kind == 4:
            return 1, 1
        if kind == 7 and four:
            return four, 1
        if kind in (8, 9, 20, 22):
            return self.size_align(four, depth + 1)
        if kind == 10:
            return four, max(self.size_align(member[1], depth + 1)[1] for member in five)
        if kind == 11:
            size, align = self.size_align(four, depth + 1)
            return size * five, align
        if kind == 13:
            size, align = self.size_align(four, depth + 1)
            return (align + size + align - 1) // align * align, align
        return (8, 8) if kind == 18 else (4, 4) if kind == 19 else (8, 4)

    def value(self, ty, body, at):
        """A plain value of a record's body, as JSON has it."""
        record = self.types[ty]
        kind, four, five = record[3], record.get(4), record.get(5)

        def piece():
            return struct.unpack_from("<II", body, at)

        def part(offset, length):
            if offset + length > len(body) and length:
                raise ValueError("a part outside of its record")
            return bytes(body[offset : offset + length]) if length else b""

        if kind in (1, 2, 5, 15, 16, 18, 19):
            size = self.size_align(ty)[0]
            return int.from_bytes(part(at, size), "little", signed=kind == 2)
        if kind == 3:
            return struct.unpack_from({16: "<e", 32: "<f", 64: "<d"}[four], body, at)[0]
        if kind == 4:
            if body[at] > 1:
                raise ValueError("neither true nor false")
            return body[at] == 1
        if kind == 6:
            return part(*piece())
        if kind in (7, 21):
            return part(at, four).hex() if kind == 7 and four else part(*piece()).hex()
        if kind == 8:
            number = self.value(four, body, at)
            return next((name for known, name in five or () if known == number), number)
        if kind in (9, 20, 22):
            return self.value(four, body, at)
        if kind == 10:
            values = {member[0]: self.value(member[1], body, at + member[2]) for member in five}
            return {name: text(value) for name, value in values.items()}
        if kind == 11:
            size = self.size_align(four)[0]
            return [text(self.value(four, body, at + n * size)) for n in range(five)]
        if kind == 12:
            (offset, count), size = piece(), self.size_align(four)[0]
            part(offset, count * size)
            return [text(self.value(four, body, offset + n * size)) for n in range(count)]
        if kind == 13:
            if body[at] > 1:
                raise ValueError("neither there nor not")
            return text(self.value(four, body, at + self.size_align(four)[1])) if body[at] else None
        if kind == 14:
            tag, offset = piece()
            return [tag, text(self.value(dict(map(tuple, five))[tag], body, offset))]
        if kind == 17:
            offset, count = piece()
            return list(struct.unpack(f"<{count}Q", part(offset, 8 * count)))
        raise ValueError(f"a type of kind {kind}")


def text(value):
    """Texts are bytes until here, since they need not be UTF-8."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


class Reader:
    """Reads all frames of some bytes."""

    def __init__(self, data):
        self.data, self.findings, self.records, self.losses = data, [], [], []
        self.duplicates = self.undecoded = self.unwritten = 0
        self.epochs, self.next, self.missing, self.begun = {}, {}, set(), set()
        self.seen, self.counts, self.ends, self.with_gaps, self.said = {}, {}, {}, set(), []

    def find(self, name, **keys):
        self.findings.append({"name": name, **keys})

    def header(self, at):
        """The header at a place, if there is one with a right checksum."""
        if self.data[at : at + 8] != SYNC or len(self.data) < at + 96:
            return None
        head = dict(zip(FIELDS, HEADER.unpack_from(self.data, at)))
        length = 8 * head["words"]
        if not 96 <= length <= 512 or len(self.data) < at + length:
            return None
        crc = crc32c(self.data[at + 96 : at + length], crc32c(self.data[at : at + 92]))
        return head if crc == struct.unpack_from("<I", self.data, at + 92)[0] else None

    def search(self, at):
        """The next place with a header, or None."""
        while (at := self.data.find(SYNC, at)) >= 0:
            if self.header(at):
                return at
            at += 1
        return None

    def frames(self):
        """All whole frames: place, header and stored payload."""
        at, data = 0, self.data
        while at < len(data):
            head = self.header(at)
            if head is None:
                rest = data[at:]
                zeros = len(rest) - len(rest.lstrip(b"\0"))
                if zeros and zeros % 8 == 0 and SYNC.startswith(data[at + zeros : at + zeros + 8]):
                    self.unwritten += zeros
                    at += zeros
                    continue
                is_cut = SYNC.startswith(rest[:8]) or rest[:8] == SYNC
                if is_cut and len(rest) < 96:
                    return self.find("truncated-frame", offset=at)
                found = self.search(at + 1)
                skipped = (found or len(data)) - at
                if at == 0:
                    self.find("leading-garbage", bytes=skipped)
                else:
                    more = {"resynced_at": found} if found else {}
                    name = "unfinished-frame" if zeros >= 8 else "lost-sync"
                    self.find(name, offset=at, bytes_skipped=skipped, **more)
                if not found:
                    return None
                at = found
                continue
            stored, raw = head["stored"], head["raw"]
            if head["version"] != 1 or stored > 64 << 20 or raw > 256 << 20:
                name = "unknown-version" if head["version"] != 1 else "frame-too-large"
                self.find(name, offset=at)
                at = self.search(at + 8)
                if at is None:
                    return None
                continue
            start = at + 8 * head["words"]
            end = start + (stored + 7) // 8 * 8
            if data[end + 4 : end + 8] != b"QPUE" or struct.unpack_from("<I", data, end)[0] != end + 8 - at:
                found = self.search(at + 8)
                if end + 8 > len(data) and not found:
                    return self.find("truncated-frame", offset=at, bytes_missing=end + 8 - len(data))
                self.find("torn-frame", offset=at, **({"resynced_at": found} if found else {}))
                if not found:
                    return None
                at = found
                continue
            if any(data[start + stored : end]):
                self.find("padding-not-zero", offset=at)
            yield at, head, data[start : start + stored]
            at = end + 8

    def in_order(self, at, head):
        """Counts a frame; False if it came before."""
        producer, stream, seq = head["producer"], head["stream"], head["seq"]
        if stream == 0 and seq == 0:
            self.begun.add(producer)
        key = (producer, stream)
        expected = self.next.setdefault(key, 0 if producer in self.begun else seq)
        if seq >= expected:
            if seq > expected:
                self.find("sequence-gap", stream=stream, expected=expected, got=seq)
                self.with_gaps.add(producer)
                self.missing.update((key, n) for n in range(expected, min(seq, expected + 4096)))
            self.next[key] = seq + 1
            return True
        if (key, seq) in self.missing:
            self.missing.discard((key, seq))
            self.find("late-frame", offset=at)
            return True
        self.duplicates += 1
        return False

    def payload(self, at, head, stored):
        """The payload of a frame, or None if it cannot be had."""
        if head["mask"]:
            stored = bytes(byte ^ head["mask"] for byte in stored)
        if head["codec"] == 2:
            stored = unzstd(stored, head["raw"])
        if stored is None or head["codec"] not in (0, 2):
            self.find("unknown-codec", offset=at, records=head["records"])
            return None
        if len(stored) != head["raw"]:
            self.find("payload-invalid", offset=at, records=head["records"])
            return None
        return stored

    def read(self):
        """Reads everything: metadata first, since later ones describe earlier rows too."""
        rows, needs, last, stopped = [], [], {}, False
        for at, head, stored in self.frames():
            kind, producer = head["kind"], head["producer"]
            last.setdefault(producer, False)
            if kind == OPEN:
                self.find("unknown-kind", offset=at)
                continue
            self.seen[at] = head
            if not self.in_order(at, head):
                continue
            counted = self.counts.setdefault(producer, [0, 0])
            before = list(counted)
            counted[0] += 1
            counted[1] += head["records"] if kind == DATA else 0
            if kind in (DATA, AGG):
                # What was dropped before a frame is said by its header, also where its payload is damaged.
                self.said.append((at, False, (producer, head["stream"]), None, head["lost"]))
            if kind not in (INDEX, PAD):
                last[producer] = kind == END
            # What is passed over may be damaged too.
            if crc32c(stored) != head["payload_crc"]:
                self.find("payload-crc", offset=at, records=head["records"] if kind in (META, DATA) else 0)
                self.missing.add(((producer, head["stream"]), head["seq"]))
                continue
            if kind == PAD:
                continue
            if kind in (DATA, AGG):
                epoch = self.epochs.setdefault((producer, head["epoch"]), Epoch())
                needs.append((at, head["version_of_metadata"], epoch))
            is_known = kind <= END
            if not is_known or head["encoding"] != {DATA: 16, INDEX: 80, END: 81}.get(kind, 1):
                if head["flags"] & 1:
                    self.find("needs-newer-program", offset=at)
                    stopped = True
                    break
                counts = {"records": head["records"]} if is_known else {}
                self.find("unknown-encoding" if is_known else "unknown-kind", offset=at, **counts)
                continue
            payload = self.payload(at, head, stored)
            if payload is None:
                continue
            epoch = self.epochs.setdefault((producer, head["epoch"]), Epoch())
            if kind == INDEX:
                self.index(at, payload)
            elif kind == END:
                said, place = self.item(at, payload, 0, 0)
                if place is not None:
                    says = [said.get(1), said.get(2)] if isinstance(said, dict) else []
                    self.ends.setdefault(producer, []).append((at, says, before))
            elif kind == META:
                place, ordinal = 0, head["version_of_metadata"] - head["records"]
                for n in range(head["records"]):
                    start = place
                    record, place = self.item(at, payload, place, head["records"] - n)
                    if place is None:
                        break
                    self.define(epoch, ordinal + n, record, payload[start:place])
            elif kind == LOSS:
                loss, place = self.item(at, payload, 0, 0)
                if isinstance(loss, dict):
                    self.loss(loss, at, head, False)
            else:
                rows.append((at, head, payload, epoch))
                self.rows(at, head, payload, epoch, only_metadata=True)
        for at, need, epoch in needs:
            hole = epoch.hole(need)
            if hole is not None:
                self.find("metadata-gap", first_offset=at, have=hole, need=need)
        for row in rows:
            self.rows(*row, only_metadata=False)
        if not last:
            self.findings = [{"name": "no-frames"}]
        for producer, ended in ({} if stopped else last).items():
            ends = self.ends.get(producer, [])
            is_whole = producer in self.begun and producer not in self.with_gaps
            if is_whole and len(ends) == 1 and ends[0][1] != ends[0][2]:
                self.find("end-mismatch", offset=ends[0][0])
            if not ended:
                self.find("no-end-frame", producer=producer)
        if self.undecoded:
            self.find("records-undecodable", records=self.undecoded)
        return self

    def item(self, at, payload, place, records):
        """An item of a frame's payload and where the next begins; None twice if the bytes are none."""
        try:
            return cbor(payload, place)
        except (ValueError, IndexError, RecursionError):
            self.find("payload-invalid", offset=at, records=records)
            return None, None

    def define(self, epoch, ordinal, record, encoded):
        """Takes a metadata record and says what is wrong with it."""
        try:
            is_canonical = to_cbor(record) == encoded
        except (TypeError, KeyError, AttributeError, StopIteration):
            is_canonical = False
        if not is_canonical:
            self.find("metadata-not-canonical", ordinal=ordinal)
        wrong = epoch.add(ordinal, record)
        if wrong:
            self.find(wrong, ordinal=ordinal)

    def index(self, at, payload):
        """Compares an index with the frames that were seen."""
        count = struct.unpack_from("<I", payload)[0] if len(payload) >= 16 else -1
        if len(payload) - 16 != 56 * count:
            self.find("payload-invalid", offset=at, records=0)
            return
        for n in range(count):
            back, length, kind, codec, encoding, *rest = struct.unpack_from("<QIBBHQIIQQQ", payload, 16 + 56 * n)
            head = self.seen.get(at - back)
            names = "producer stream records ts_first ts_last seq".split()
            if head and (
                (kind, codec, encoding) != (head["kind"], head["codec"], head["encoding"])
                or rest != [head[name] for name in names]
            ):
                self.find("index-mismatch", offset=at, entry=n)
                return

    def loss(self, loss, at, head, inside):
        count, stream = loss.get(2, 0), loss.get(1, head["stream"])
        self.losses.append({"cause": loss.get(0), "stream": stream, "count": count})
        if type(count) is int:
            self.said.append((at, inside, (head["producer"], stream), count, 0))

    def lost(self):
        """Records lost by stream: what headers say, and maps after the last frame of their stream."""
        sums, pending = {}, {}
        for _, _, who, count, lost in sorted(self.said, key=lambda said: said[:2]):
            if count is None:
                sums[who], pending[who] = sums.get(who, 0) + lost, 0
            else:
                pending[who] = pending.get(who, 0) + count
        lost = {}
        for who in {*sums, *pending}:
            n = min(sums.get(who, 0) + pending.get(who, 0), (1 << 32) - 1)
            if n:
                lost[str(who[1])] = min(lost.get(str(who[1]), 0) + n, (1 << 32) - 1)
        return lost

    def rows(self, at, head, payload, epoch, only_metadata):
        """The rows of a frame, or only what stands between them."""
        place, ordinal, decoded, latest, fell = 0, head["version_of_metadata"], 0, 0, False
        while place < len(payload):
            if place + 16 > len(payload):
                break
            schema, size, time = struct.unpack_from("<IIQ", payload, place)
            if size < 16 or size % 8 or place + size > len(payload):
                if not only_metadata:
                    self.find("payload-invalid", offset=at, records=head["records"] - decoded)
                break
            body = payload[place + 16 : place + size]
            place += size
            if schema >= 16:
                fell, latest = fell or time < latest, time
            if schema < 16:
                item, end = None, 0
                if only_metadata and schema in (1, 2):
                    try:
                        item, end = cbor(body)
                    except (ValueError, IndexError, RecursionError):
                        pass
                if schema == 1:
                    if only_metadata and end:
                        self.define(epoch, ordinal, item, body[:end])
                    elif only_metadata:
                        epoch.known.setdefault(ordinal, None)
                        self.find("metadata-invalid", ordinal=ordinal)
                    ordinal += 1
                elif isinstance(item, dict):
                    self.loss(item, at, head, True)
            elif not only_metadata and self.record(at, head, epoch, schema, time, body):
                decoded += 1
        if not only_metadata:
            if fell and not head["flags"] & 8:
                self.find("time-order", offset=at)
            self.undecoded += max(head["records"] - decoded, 0)

    def record(self, at, head, epoch, schema, time, body):
        described = epoch.schemas.get(schema)
        if described is None:
            return False
        record = {"schema": described.get(2, str(schema)), "ts": time}
        try:
            if len(body) < described.get(4, 0):
                raise ValueError("too short")
            for field in described[3]:
                value = epoch.value(field[1], body, field[2])
                if isinstance(value, bytes):
                    try:
                        value = value.decode()
                    except UnicodeDecodeError:
                        record[field[0] + "_hex"] = value.hex()
                        continue
                record[field[0]] = value
        except KeyError:
            return False
        except (ValueError, IndexError, TypeError, AttributeError, RecursionError, struct.error):
            self.find("record-invalid", offset=at)
            return False
        self.records.append({**record, "stream": head["stream"]})
        return True


def main():
    with open(sys.argv[1], "rb") as file:
        reader = Reader(file.read()).read()
    print(
        json.dumps(
            {
                "findings": reader.findings,
                "records": reader.records,
                "losses": reader.losses,
                "lost": reader.lost(),
                "duplicates": reader.duplicates,
                "unwritten_bytes": reader.unwritten,
            }
        )
    )


if __name__ == "__main__":
    main()
