// Numbers, times and bytes for people.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(count) {
  if (!Number.isFinite(count)) return "–";
  let unit = 0;
  let value = count;
  while (Math.abs(value) >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit && value < 100 ? value.toFixed(value < 10 ? 2 : 1) : Math.round(value)} ${UNITS[unit]}`;
}

export function count(number) {
  return Number.isFinite(number) ? Math.round(number).toLocaleString("en-GB") : "–";
}

/** At most four digits. */
export function short(number) {
  if (!Number.isFinite(number)) return "–";
  for (const [size, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (Math.abs(number) >= size) {
      const value = number / (letter === "k" ? 1e3 : size);
      return `${value >= 100 ? Math.round(value) : value.toFixed(1)}${letter}`;
    }
  }
  return number >= 100 || Number.isInteger(number) ? count(number) : number.toFixed(number < 10 ? 2 : 1);
}

export function rate(number, unit = "/s") {
  return Number.isFinite(number) ? `${short(number < 0.005 ? 0 : number)}${unit}` : "–";
}

export function millis(value) {
  if (!Number.isFinite(value)) return "–";
  if (value < 1) return `${(value * 1000).toFixed(0)} µs`;
  return value < 1000 ? `${value.toFixed(value < 10 ? 2 : 0)} ms` : `${(value / 1000).toFixed(1)} s`;
}

const STEPS = [["d", 86400e9], ["h", 3600e9], ["m", 60e9], ["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];

/** Nanoseconds as `1d12h`; its two largest parts. */
export function duration(ns, parts = 2) {
  if (!ns) return "0s";
  let rest = Math.abs(ns);
  const found = [];
  for (const [name, size] of STEPS) {
    const whole = Math.floor(rest / size);
    if (whole) {
      found.push(`${whole}${name}`);
      rest -= whole * size;
    }
    if (found.length === parts) break;
  }
  return (ns < 0 ? "-" : "") + found.join("");
}

/** `1d12h`, `90s`, `1.5h` or a plain number of seconds, in nanoseconds; throws on anything else. */
export function readDuration(text) {
  const trimmed = text.trim().replace("us", "µs");
  if (trimmed === "" || trimmed === "0") return 0;
  if (/^\d+(\.\d+)?$/.test(trimmed)) return Math.round(Number(trimmed) * 1e9);
  if (!/^(\d+(\.\d+)?(ns|µs|ms|s|m|h|d|w))+$/.test(trimmed)) throw new Error(`${text} is not a duration such as 30s, 12h or 7d`);
  let sum = 0;
  for (const [, number, , unit] of trimmed.matchAll(/(\d+(\.\d+)?)(ns|µs|ms|s|m|h|d|w)/g)) {
    sum += Number(number) * (unit === "w" ? 7 * 86400e9 : STEPS.find(([name]) => name === unit)[1]);
  }
  return Math.round(sum);
}

/** `10 GiB`, `5M`, `100`; -1 for nothing. */
export function readSize(text) {
  const trimmed = text.trim();
  if (trimmed === "" || trimmed === "-1") return -1;
  const found = /^(\d+(?:\.\d+)?)\s*([KMGTP]?)(i?B?)$/i.exec(trimmed);
  if (!found) throw new Error(`${text} is not a size such as 512KiB or 10GiB`);
  return Math.round(Number(found[1]) * 1024 ** " KMGTP".indexOf((found[2] || " ").toUpperCase()));
}

export function readCount(text) {
  const trimmed = text.replace(/[\s,_]/g, "");
  if (trimmed === "" || trimmed === "-1") return -1;
  if (!/^\d+$/.test(trimmed)) throw new Error(`${text} is not a whole number`);
  return Number(trimmed);
}

/** How long ago, in one word. */
export function ago(time, now = Date.now()) {
  const at = typeof time === "number" ? time : Date.parse(time);
  if (!Number.isFinite(at) || at <= 0) return "never";
  const seconds = (now - at) / 1000;
  if (seconds < -1) return `in ${duration(-seconds * 1e9, 1)}`;
  return seconds < 1 ? "now" : `${duration(Math.floor(seconds) * 1e9, 1)} ago`;
}

const DAY = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });

/** Date and time with milliseconds, in the zone of the browser. */
export function moment(time) {
  const at = typeof time === "number" ? time : Date.parse(time);
  if (!Number.isFinite(at) || at <= 0) return "–";
  return `${DAY.format(at)}.${String(Math.floor(at % 1000)).padStart(3, "0")}`;
}

export function clock(time) {
  return moment(time).slice(11);
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** Bytes as text if they are text, else null. */
export function asText(data) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(data);
    return /[\0-\x08\x0e-\x1f]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

/** One line of what a payload says. */
export function preview(data, most = 200) {
  const text = asText(data.length > most * 4 ? cut(data, most * 4) : data);
  if (text !== null) return text.slice(0, most).replace(/\s+/g, " ");
  return Array.from(data.subarray(0, 48), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

/** The first bytes, not ending inside a character. */
function cut(data, most) {
  let end = most;
  while (end > 0 && (data[end] & 0xc0) === 0x80) end--;
  return data.subarray(0, end);
}

export function hex(data, most = 16384) {
  const lines = [];
  for (let at = 0; at < Math.min(data.length, most); at += 16) {
    const row = data.subarray(at, at + 16);
    const left = Array.from(row, (byte) => byte.toString(16).padStart(2, "0"));
    const right = Array.from(row, (byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${left.slice(0, 8).join(" ").padEnd(23)}  ${left.slice(8).join(" ").padEnd(23)}  ${right}`);
  }
  if (data.length > most) lines.push(`… ${plural(data.length - most, "byte")} more`);
  return lines.join("\n");
}

export function base64(data) {
  let text = "";
  for (let at = 0; at < data.length; at += 32768) text += String.fromCharCode(...data.subarray(at, at + 32768));
  return btoa(text);
}

export function fromBase64(text) {
  return Uint8Array.from(atob(text || ""), (letter) => letter.charCodeAt(0));
}

/** Whether a subject is one of those that a pattern means; `pattern` may have wildcards, so may `subject`. */
export function matches(pattern, subject) {
  const left = pattern.split(".");
  const right = subject.split(".");
  for (let at = 0; at < left.length; at++) {
    if (left[at] === ">") return right.length > at;
    if (at >= right.length || right[at] === ">") return false;
    if (left[at] !== "*" && left[at] !== right[at]) return false;
  }
  return left.length === right.length;
}

/** Whether some subject is meant by both. */
export function overlaps(one, other) {
  const left = one.split(".");
  const right = other.split(".");
  for (let at = 0; ; at++) {
    if (at >= left.length || at >= right.length) return at >= left.length && at >= right.length;
    if (left[at] === ">" || right[at] === ">") return true;
    if (left[at] !== "*" && right[at] !== "*" && left[at] !== right[at]) return false;
  }
}
