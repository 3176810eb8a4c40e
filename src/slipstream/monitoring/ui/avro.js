// Avro (1.11) to plain values: object container files, which bring their schema, and single values with one that is given.

const MAGIC = [0x4f, 0x62, 0x6a, 1]; // "Obj", 1
const SINGLE = [0xc3, 0x01]; // single-object encoding: then eight bytes that name the schema
const VALUES_MAX = 100000;
const DEPTH_MAX = 64;
const text = new TextDecoder("utf-8", { fatal: true });

const begins = (data, bytes) => data.length >= bytes.length && bytes.every((byte, at) => data[at] === byte);

export const isAvroFile = (data) => begins(data, MAGIC);

class Reader {
  constructor(data) {
    this.data = data;
    this.at = 0;
    this.values = 0;
  }

  take(count) {
    if (count < 0 || this.at + count > this.data.length) throw new Error("the bytes end too early");
    this.at += count;
    return this.data.subarray(this.at - count, this.at);
  }

  /** A zigzag number; beyond what JavaScript counts exactly it is a text. */
  long() {
    let bits = 0n;
    for (let shift = 0n; ; shift += 7n) {
      if (shift > 63n) throw new Error("a number is too long");
      const [byte] = this.take(1);
      bits |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    const value = BigInt.asIntN(64, (bits >> 1n) ^ -(bits & 1n));
    return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  }

  size() {
    const size = this.long();
    if (typeof size !== "number") throw new Error("a length is too large");
    return size;
  }

  count() {
    if (++this.values > VALUES_MAX) throw new Error(`more than ${VALUES_MAX} values`);
  }
}

const hexOf = (bytes) => `0x${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;

const PRIMITIVES = {
  null: () => null,
  boolean: (reader) => reader.take(1)[0] !== 0,
  int: (reader) => reader.long(),
  long: (reader) => reader.long(),
  float: (reader) => view(reader.take(4)).getFloat32(0, true),
  double: (reader) => view(reader.take(8)).getFloat64(0, true),
  bytes: (reader) => hexOf(reader.take(reader.size())),
  string: (reader) => text.decode(reader.take(reader.size())),
};

const view = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.length);

/** A schema with its names found: what `read` walks. */
class Schema {
  constructor(json) {
    this.named = new Map();
    this.root = this.known(json, "", 0);
  }

  known(json, space, depth) {
    if (depth > DEPTH_MAX) throw new Error("the schema is nested too deep");
    if (Array.isArray(json)) return { kind: "union", of: json.map((each) => this.known(each, space, depth + 1)) };
    if (typeof json === "string") {
      if (json in PRIMITIVES) return { kind: json };
      const found = this.named.get(json) || this.named.get(`${space}.${json}`);
      if (!found) throw new Error(`the schema does not say what “${json}” is`);
      return found;
    }
    if (!json || typeof json !== "object") throw new Error("that is not a schema");
    if (json.type === "array") return { kind: "array", of: this.known(json.items, space, depth + 1) };
    if (json.type === "map") return { kind: "map", of: this.known(json.values, space, depth + 1) };
    if (["record", "error", "enum", "fixed"].includes(json.type)) return this.declared(json, space, depth);
    return this.known(json.type, space, depth + 1);
  }

  declared(json, space, depth) {
    const name = String(json.name || "");
    const full = name.includes(".") || !(json.namespace ?? space) ? name : `${json.namespace ?? space}.${name}`;
    const kind = json.type === "error" ? "record" : json.type;
    const made = { kind, name: full, symbols: json.symbols, size: json.size };
    this.named.set(full, made);
    this.named.set(name, made);
    const inner = full.split(".").slice(0, -1).join(".");
    if (kind === "record") made.fields = (json.fields || []).map((each) => [String(each.name), this.known(each.type, inner, depth + 1)]);
    return made;
  }
}

function read(reader, schema, depth) {
  if (depth > DEPTH_MAX) throw new Error("the value is nested too deep");
  reader.count();
  const { kind } = schema;
  if (kind in PRIMITIVES) return PRIMITIVES[kind](reader);
  if (kind === "record") return Object.fromEntries(schema.fields.map(([name, of]) => [name, read(reader, of, depth + 1)]));
  if (kind === "enum") return schema.symbols?.[reader.size()] ?? "?";
  if (kind === "fixed") return hexOf(reader.take(schema.size));
  if (kind === "union") {
    const chosen = schema.of[reader.size()];
    if (!chosen) throw new Error("a union has no such branch");
    return read(reader, chosen, depth + 1);
  }
  const found = kind === "array" ? [] : {};
  for (;;) {
    let left = reader.size();
    if (!left) return found;
    if (left < 0) {
      left = -left;
      reader.size(); // bytes of the block
    }
    for (; left > 0; left--) {
      if (kind === "array") found.push(read(reader, schema.of, depth + 1));
      else {
        const key = PRIMITIVES.string(reader);
        found[key] = read(reader, schema.of, depth + 1);
      }
    }
  }
}

/** The values of a container file. */
function readFile(data) {
  const reader = new Reader(data);
  reader.take(MAGIC.length);
  const meta = read(reader, { kind: "map", of: { kind: "bytes" } }, 0);
  const bytesOf = (name) => (meta[name] ? Uint8Array.from(meta[name].slice(2).match(/../g) || [], (pair) => parseInt(pair, 16)) : new Uint8Array());
  const codec = text.decode(bytesOf("avro.codec")) || "null";
  if (codec !== "null") throw new Error(`the file is compressed (${codec})`);
  const schema = new Schema(JSON.parse(text.decode(bytesOf("avro.schema"))));
  const sync = reader.take(16);
  const found = [];
  while (reader.at < data.length) {
    const count = reader.size();
    reader.size();
    for (let at = 0; at < count; at++) found.push(read(reader, schema.root, 0));
    if (!begins(reader.take(16), [...sync])) throw new Error("a block does not end where it should");
  }
  return found;
}

/** What bytes say; `written` is the schema as JSON, which a container file does not need. */
export function readAvro(data, written) {
  if (isAvroFile(data)) return readFile(data);
  if (!written?.trim()) throw new Error("this is no Avro file: it takes the schema to read it");
  const reader = new Reader(data);
  if (begins(data, SINGLE)) reader.take(10);
  const value = read(reader, new Schema(JSON.parse(written)).root, 0);
  if (reader.at !== data.length) throw new Error(`${data.length - reader.at} bytes are left: this is another schema`);
  return value;
}
