// Protocol Buffers to plain values: by a .proto that is given, or, without one, by what the bytes look like.

const DEPTH_MAX = 32;
const FIELDS_MAX = 100000;
const text = new TextDecoder("utf-8", { fatal: true });
const PRINTABLE = /^[\t\n\r\x20-\x7e\u00a0-\uffff]*$/;

class Wire {
  constructor(data) {
    this.data = data;
    this.at = 0;
  }

  take(count) {
    if (this.at + count > this.data.length) throw new Error("the bytes end too early");
    this.at += count;
    return this.data.subarray(this.at - count, this.at);
  }

  varint() {
    let bits = 0n;
    for (let shift = 0n; ; shift += 7n) {
      if (shift > 63n) throw new Error("a number is too long");
      const [byte] = this.take(1);
      bits |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, bits);
    }
  }

  /** Number, kind and raw value of the next field. */
  field() {
    const tag = Number(this.varint());
    const kind = tag & 7;
    const number = Math.floor(tag / 8);
    if (!number) throw new Error("field 0 is none");
    if (kind === 0) return { number, kind, raw: this.varint() };
    if (kind === 1) return { number, kind, raw: this.take(8) };
    if (kind === 5) return { number, kind, raw: this.take(4) };
    if (kind !== 2) throw new Error(`fields of kind ${kind} are not in use any more`);
    const size = Number(this.varint());
    return { number, kind, raw: this.take(size) };
  }
}

const view = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
const plain = (value) => (Number.isSafeInteger(Number(value)) ? Number(value) : String(value));
const hexOf = (bytes) => `0x${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;

// Names of scalar types → kind on the wire, and what the raw value means.
const SCALARS = {
  int32: [0, (raw) => plain(BigInt.asIntN(64, raw))], int64: [0, (raw) => plain(BigInt.asIntN(64, raw))],
  uint32: [0, plain], uint64: [0, plain], bool: [0, (raw) => raw !== 0n],
  sint32: [0, (raw) => plain((raw >> 1n) ^ -(raw & 1n))], sint64: [0, (raw) => plain((raw >> 1n) ^ -(raw & 1n))],
  fixed32: [5, (raw) => view(raw).getUint32(0, true)], sfixed32: [5, (raw) => view(raw).getInt32(0, true)], float: [5, (raw) => view(raw).getFloat32(0, true)],
  fixed64: [1, (raw) => plain(view(raw).getBigUint64(0, true))], sfixed64: [1, (raw) => plain(view(raw).getBigInt64(0, true))], double: [1, (raw) => view(raw).getFloat64(0, true)],
  string: [2, (raw) => text.decode(raw)], bytes: [2, hexOf],
};

// --- without a schema -------------------------------------------------------------------------------------------------

/** Fields by number; throws unless all bytes are fields. */
function guess(data, depth) {
  const wire = new Wire(data);
  const found = {};
  let fields = 0;
  while (wire.at < data.length) {
    if (++fields > FIELDS_MAX) throw new Error(`more than ${FIELDS_MAX} fields`);
    const { number, kind, raw } = wire.field();
    const value = kind === 0 ? plain(raw) : kind === 2 ? guessBytes(raw, depth) : kind === 1 ? view(raw).getFloat64(0, true) : view(raw).getFloat32(0, true);
    if (!(number in found)) found[number] = value;
    else if (Array.isArray(found[number])) found[number].push(value);
    else found[number] = [found[number], value];
  }
  return found;
}

function guessBytes(raw, depth) {
  try {
    const words = text.decode(raw);
    if (PRINTABLE.test(words)) return words;
  } catch {
    // No text.
  }
  if (depth < DEPTH_MAX && raw.length) {
    try {
      return guess(raw, depth + 1);
    } catch {
      // No message either.
    }
  }
  return hexOf(raw);
}

// --- with one -----------------------------------------------------------------------------------------------------------

/** Messages and enums of a .proto, by their full names; what does not shape the bytes is passed over. */
export function readProto(source) {
  const words = source.replace(/\/\/[^\n]*|\/\*[\s\S]*?\*\//g, " ").match(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[\w.]+|[^\s\w]/g) || [];
  const types = new Map();
  let at = 0;
  let space = "";
  const skipTo = (end) => {
    for (let depth = 0; at < words.length; at++) {
      if (words[at] === "{" || words[at] === "[") depth++;
      else if (words[at] === "}" || words[at] === "]") depth--;
      if (depth <= 0 && (words[at] === end || (end === "}" && words[at] === "}"))) break;
    }
    at++;
  };
  const body = (type, scope) => {
    while (at < words.length && words[at] !== "}") {
      const word = words[at];
      if (word === ";") at++;
      else if (word === "message" || word === "enum") declare(scope);
      else if (word === "oneof") {
        at += 3;
        body(type, scope);
      } else if (["option", "reserved", "extensions"].includes(word)) skipTo(";");
      else if (word === "extend") skipTo("}");
      else field(type, scope);
    }
    at++;
  };
  const field = (type, scope) => {
    const repeated = words[at] === "repeated";
    if (["repeated", "optional", "required"].includes(words[at])) at++;
    let kind = words[at++];
    let keys = null;
    if (kind === "map" && words[at] === "<") {
      keys = words[at + 1];
      kind = words[at + 3];
      at += 5;
    }
    const name = words[at++];
    if (words[at++] !== "=") throw new Error(`“${name}”: a field is written as type name = number;`);
    type.fields.set(Number(words[at++]), { name, kind, keys, repeated, scope });
    skipTo(";");
  };
  const declare = (scope) => {
    const what = words[at++];
    const name = scope ? `${scope}.${words[at++]}` : words[at++];
    if (words[at++] !== "{") throw new Error(`“${name}”: { is missing`);
    if (what === "message") {
      const type = { name, fields: new Map() };
      types.set(name, type);
      body(type, name);
      return;
    }
    const values = new Map();
    types.set(name, { name, values });
    while (at < words.length && words[at] !== "}") {
      if (words[at + 1] === "=") {
        const negative = words[at + 2] === "-";
        values.set(Number(words[at + (negative ? 3 : 2)]) * (negative ? -1 : 1), words[at]);
      }
      skipTo(";");
    }
    at++;
  };
  while (at < words.length) {
    if (words[at] === "message" || words[at] === "enum") declare(space);
    else if (words[at] === "package") {
      space = words[at + 1];
      skipTo(";");
    } else if (["service", "extend"].includes(words[at])) skipTo("}");
    else skipTo(";");
  }
  return types;
}

function find(types, name, scope) {
  if (name.startsWith(".")) return types.get(name.slice(1));
  for (let parts = scope.split("."); ; parts.pop()) {
    const found = types.get([...parts, name].filter(Boolean).join("."));
    if (found) return found;
    if (!parts.length) return undefined;
  }
}

function message(types, type, data, depth) {
  if (depth > DEPTH_MAX) throw new Error("the message is nested too deep");
  const wire = new Wire(data);
  const found = {};
  while (wire.at < data.length) {
    const { number, kind, raw } = wire.field();
    const field = type.fields.get(number);
    if (!field) {
      found[number] = kind === 0 ? plain(raw) : hexOf(raw);
      continue;
    }
    if (field.keys) {
      const entry = message(types, { fields: new Map([[1, { name: "key", kind: field.keys, scope: "" }], [2, { ...field, name: "value", keys: null }]]) }, raw, depth + 1);
      (found[field.name] ??= {})[entry.key ?? ""] = entry.value ?? null;
      continue;
    }
    const values = valuesOf(types, field, kind, raw, depth);
    if (field.repeated) (found[field.name] ??= []).push(...values);
    else found[field.name] = values.at(-1);
  }
  return found;
}

function valuesOf(types, field, kind, raw, depth) {
  const scalar = SCALARS[field.kind];
  const type = scalar ? null : find(types, field.kind, field.scope);
  if (!scalar && !type) throw new Error(`the schema does not say what “${field.kind}” is`);
  if (type?.fields) {
    if (kind !== 2) throw new Error(`“${field.name}” is no ${type.name} here`);
    return [message(types, type, raw, depth + 1)];
  }
  const [wanted, read] = scalar || [0, (number) => type.values.get(Number(BigInt.asIntN(64, number))) ?? plain(number)];
  if (kind === wanted) return [read(raw)];
  if (kind !== 2 || wanted === 2) throw new Error(`“${field.name}” is no ${field.kind} here`);
  const packed = new Wire(raw); // numbers of a repeated field, one behind the other
  const found = [];
  while (packed.at < raw.length) found.push(read(wanted === 0 ? packed.varint() : packed.take(wanted === 1 ? 8 : 4)));
  return found;
}

/** What bytes say: `source` is a .proto, `name` the message in it (the first, if it is empty). */
export function readProtobuf(data, source, name) {
  if (!source?.trim()) return guess(data, 0);
  const types = readProto(source);
  const messages = [...types.values()].filter((type) => type.fields);
  const type = name?.trim() ? messages.find((each) => each.name === name.trim() || each.name.endsWith(`.${name.trim()}`)) : messages[0];
  if (!type) throw new Error(name ? `the schema has no message ${name}` : "the schema has no message");
  return message(types, type, data, 0);
}

/** Whether bytes without a schema look like a message. */
export function looksLikeProtobuf(data) {
  if (!data.length || data.length > 1 << 20) return false;
  try {
    guess(data, 0);
    return true;
  } catch {
    return false;
  }
}
