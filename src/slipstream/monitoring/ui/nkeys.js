// Credentials as the tools of NATS keep them: files of `nsc` with a token and a seed, and the signature they need.

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const SEED_BYTES = 32;
// An Ed25519 private key in PKCS #8 is its seed behind these bytes (RFC 8410).
const PKCS8 = Uint8Array.from([0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20]);

/** Token and seed from the text of a credentials file, or a bare seed. */
export function readCredentials(text) {
  const block = (what) => new RegExp(`-BEGIN ${what}-+\\s+([A-Za-z0-9_.=-]+)\\s`).exec(text)?.[1] || "";
  const seed = block("USER NKEY SEED") || /\bSU[A-Z2-7]{56}\b/.exec(text)?.[0] || "";
  const token = block("NATS USER JWT");
  if (!seed) throw new Error("There is no user seed in this file.");
  return { token, seed };
}

/** Signs the server's challenge; gives the public key beside the signature, both as CONNECT wants them. */
export async function sign(seed, nonce) {
  const raw = decode32(seed);
  // Two bytes of kind, the seed, two of checksum.
  if (raw.length !== SEED_BYTES + 4 || checksum(raw.subarray(0, -2)) !== raw.at(-2) + 256 * raw.at(-1)) {
    throw new Error("This is not a seed: it was cut or mistyped.");
  }
  if (!globalThis.crypto?.subtle) throw new Error("The browser signs only over https, or on this machine.");
  const key = new Uint8Array([...PKCS8, ...raw.subarray(2, 2 + SEED_BYTES)]);
  const own = await crypto.subtle.importKey("pkcs8", key, { name: "Ed25519" }, true, ["sign"]);
  const signature = await crypto.subtle.sign({ name: "Ed25519" }, own, new TextEncoder().encode(nonce));
  const { x } = await crypto.subtle.exportKey("jwk", own);
  const point = Uint8Array.from(atob(x.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
  return { nkey: encodeUser(point), sig: url64(new Uint8Array(signature)) };
}

function url64(bytes) {
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

function encodeUser(point) {
  const body = Uint8Array.from([20 << 3, ...point]); // U
  const sum = checksum(body);
  return encode32(Uint8Array.from([...body, sum & 255, sum >> 8]));
}

function decode32(text) {
  const bytes = [];
  let bits = 0;
  let held = 0;
  for (const letter of text.trim()) {
    const value = ALPHABET.indexOf(letter);
    if (value < 0) throw new Error("This is not a seed.");
    held = (held << 5) | value;
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      bytes.push((held >> bits) & 255);
      held &= (1 << bits) - 1;
    }
  }
  return Uint8Array.from(bytes);
}

function encode32(bytes) {
  let text = "";
  let bits = 0;
  let held = 0;
  for (const byte of bytes) {
    held = (held << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += ALPHABET[(held >> bits) & 31];
      held &= (1 << bits) - 1;
    }
  }
  return bits ? text + ALPHABET[(held << (5 - bits)) & 31] : text;
}

/** CRC-16 (XMODEM), as nkeys end with. */
function checksum(bytes) {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  return crc;
}
