import { uvarint, varint } from './bytes.ts'

/** Bits, the highest first. */
class BitWriter {
  readonly #bytes: number[] = []
  #free = 0

  /** Writes the lowest bits of a number of 64 bits, given in two halves. */
  write(high: number, low: number, count: number): void {
    for (let bit = count - 1; bit >= 0; bit--) {
      const half = bit >= 32 ? high : low
      this.#writeBit((half >>> (bit & 31)) & 1)
    }
  }

  writeBytes(bytes: Uint8Array): void {
    for (const byte of bytes) this.write(0, byte, 8)
  }

  bytes(): Buffer {
    return Buffer.from(this.#bytes)
  }

  #writeBit(bit: number): void {
    if (this.#free === 0) {
      this.#bytes.push(0)
      this.#free = 8
    }
    this.#free--
    const last = this.#bytes.length - 1
    this.#bytes[last] = (this.#bytes[last] ?? 0) | (bit << this.#free)
  }
}

const halves = new DataView(new ArrayBuffer(8))

function bitsOf(value: number): readonly [high: number, low: number] {
  halves.setFloat64(0, value)
  return [halves.getUint32(0), halves.getUint32(4)]
}

/** Encodes samples with equal distances as Prometheus does: chunkenc/xor.go. */
export function xorChunk(fromMs: number, stepMs: number, values: readonly number[]): Buffer {
  const bits = new BitWriter()
  bits.write(0, values.length, 16)
  let before = bitsOf(values[0] ?? 0)
  let window = { leading: Number.POSITIVE_INFINITY, trailing: 0 }
  bits.writeBytes(varint(fromMs))
  bits.write(...before, 64)
  values.slice(1).forEach((value, index) => {
    if (index === 0) bits.writeBytes(uvarint(stepMs))
    else bits.write(0, 0, 1)
    const after = bitsOf(value)
    window = writeDifference(bits, (before[0] ^ after[0]) >>> 0, (before[1] ^ after[1]) >>> 0, window)
    before = after
  })
  return bits.bytes()
}

interface BitWindow {
  readonly leading: number
  readonly trailing: number
}

function writeDifference(bits: BitWriter, high: number, low: number, window: BitWindow): BitWindow {
  if (high === 0 && low === 0) {
    bits.write(0, 0, 1)
    return window
  }
  const leading = Math.min(31, high === 0 ? 32 + Math.clz32(low) : Math.clz32(high))
  const trailing = low === 0 ? 32 + trailingZeros(high) : trailingZeros(low)
  if (leading >= window.leading && trailing >= window.trailing) {
    bits.write(0, 0b10, 2)
    writeMiddle(bits, high, low, window)
    return window
  }
  const next = { leading, trailing }
  bits.write(0, 0b11, 2)
  bits.write(0, leading, 5)
  bits.write(0, 64 - leading - trailing, 6)
  writeMiddle(bits, high, low, next)
  return next
}

function writeMiddle(bits: BitWriter, high: number, low: number, { leading, trailing }: BitWindow): void {
  const count = 64 - leading - trailing
  if (trailing >= 32) bits.write(0, high >>> (trailing - 32), count)
  else if (trailing === 0) bits.write(high, low, count)
  else bits.write(high >>> trailing, ((high << (32 - trailing)) | (low >>> trailing)) >>> 0, count)
}

function trailingZeros(value: number): number {
  return 31 - Math.clz32(value & -value)
}
