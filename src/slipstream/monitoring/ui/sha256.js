// SHA-256, piece by piece (FIPS 180-4): what browsers have built in takes whole files, and only over https.

const K = new Uint32Array(64);
const START = new Uint32Array(8);
{
  // The fractions of the roots of the first primes, as the standard has it.
  const fraction = (value) => Math.floor((value - Math.floor(value)) * 2 ** 32);
  const primes = [];
  for (let number = 2; primes.length < 64; number++) if (primes.every((prime) => number % prime)) primes.push(number);
  primes.forEach((prime, at) => {
    if (at < 8) START[at] = fraction(Math.sqrt(prime));
    K[at] = fraction(Math.cbrt(prime));
  });
}

export class Sha256 {
  constructor() {
    this._state = START.slice();
    this._block = new Uint8Array(64);
    this._held = 0;
    this._bytes = 0;
    this._words = new Uint32Array(64);
  }

  add(data) {
    this._bytes += data.length;
    let at = 0;
    while (at < data.length) {
      const part = Math.min(64 - this._held, data.length - at);
      this._block.set(data.subarray(at, at + part), this._held);
      this._held += part;
      at += part;
      if (this._held === 64) {
        this._mix();
        this._held = 0;
      }
    }
    return this;
  }

  digest() {
    const bits = this._bytes * 8;
    const fill = new Uint8Array(((this._held < 56 ? 56 : 120) - this._held) + 8);
    fill[0] = 0x80;
    const view = new DataView(fill.buffer);
    view.setUint32(fill.length - 8, Math.floor(bits / 2 ** 32));
    view.setUint32(fill.length - 4, bits >>> 0);
    this.add(fill);
    const result = new DataView(new ArrayBuffer(32));
    this._state.forEach((word, at) => result.setUint32(at * 4, word));
    return new Uint8Array(result.buffer);
  }

  _mix() {
    const w = this._words;
    const view = new DataView(this._block.buffer);
    for (let t = 0; t < 16; t++) w[t] = view.getUint32(t * 4);
    for (let t = 16; t < 64; t++) {
      const x = w[t - 15];
      const y = w[t - 2];
      w[t] = (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10)) + w[t - 7] + (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) + w[t - 16];
    }
    let [a, b, c, d, e, f, g, i] = this._state;
    for (let t = 0; t < 64; t++) {
      const one = (i + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[t] + w[t]) | 0;
      const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [i, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
    }
    [a, b, c, d, e, f, g, i].forEach((word, at) => (this._state[at] += word));
  }
}

function turn(word, by) {
  return (word >>> by) | (word << (32 - by));
}

/** As object stores write it. */
export function digestText(bytes) {
  return `SHA-256=${btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_")}`;
}
