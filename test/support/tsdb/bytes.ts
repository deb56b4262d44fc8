const CASTAGNOLI = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1
  return value >>> 0
})

/** CRC-32C, which Prometheus uses; `node:zlib` has only the other polynomial. */
export function crc32c(bytes: Uint8Array): Buffer {
  let crc = 0xffffffff
  for (const byte of bytes) crc = (CASTAGNOLI[(crc ^ byte) & 0xff] ?? 0) ^ (crc >>> 8)
  return uint32((crc ^ 0xffffffff) >>> 0)
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

export function uint64(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(value))
  return bytes
}

/** Seven bits in each byte, the lowest first. @param value a whole number from 0 */
export function uvarint(value: number): Buffer {
  const bytes: number[] = []
  let rest = value
  while (rest >= 0x80) {
    bytes.push((rest % 0x80) | 0x80)
    rest = Math.floor(rest / 0x80)
  }
  return Buffer.from([...bytes, rest])
}

/** A signed number: 0, -1, 1, -2, … become 0, 1, 2, 3, … */
export function varint(value: number): Buffer {
  return uvarint(value < 0 ? -2 * value - 1 : 2 * value)
}

export function text(value: string): Buffer {
  const bytes = Buffer.from(value)
  return Buffer.concat([uvarint(bytes.length), bytes])
}
