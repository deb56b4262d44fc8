const text = Buffer.from('0000-00-00T00:00:00.000Z', 'latin1')
const ZERO = 0x30

/**
 * The text of `Date.prototype.toISOString` (ISO 8601, UTC, to the millisecond) for half of its time: it is said on each
 * request that asks what its key is.
 * @throws RangeError where a Date cannot hold that time
 */
export function isoInstant(ms: number): string {
  const date = new Date(ms)
  const year = date.getUTCFullYear()
  // Others have six digits and a sign; no time at all is none of either.
  if (!(year >= 0 && year <= 9999)) return date.toISOString()
  putTwo(0, Math.floor(year / 100))
  putTwo(2, year % 100)
  putTwo(5, date.getUTCMonth() + 1)
  putTwo(8, date.getUTCDate())
  putTwo(11, date.getUTCHours())
  putTwo(14, date.getUTCMinutes())
  putTwo(17, date.getUTCSeconds())
  const thousandths = date.getUTCMilliseconds()
  putTwo(20, Math.floor(thousandths / 10))
  text[22] = ZERO + (thousandths % 10)
  return text.toString('latin1')
}

function putTwo(at: number, number: number): void {
  text[at] = ZERO + Math.floor(number / 10)
  text[at + 1] = ZERO + (number % 10)
}
