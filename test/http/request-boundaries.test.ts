import fc from 'fast-check'
import { expect, test } from 'vitest'
import { RequestBoundaries } from '../../src/http/request-boundaries.ts'

const HEADS = [
  'GET / HTTP/1.1\r\n\r\n',
  '\r\n\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n',
  '\r\nGET  /several/spaces   HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n',
]

/** @returns what the parser receives in one call, and the length of each request line */
function cut(segments: readonly Buffer[]): { pieces: string[]; lineLengths: number[] } {
  const boundaries = new RequestBoundaries()
  const pieces = ['']
  const lineLengths: number[] = []
  for (const segment of segments) {
    for (let rest = segment; rest.length > 0; ) {
      const length = boundaries.take(rest)
      expect(length).toBeGreaterThan(0)
      pieces.push((pieces.pop() ?? '') + rest.toString('latin1', 0, length))
      rest = rest.subarray(length)
      if (!pieces.at(-1)?.endsWith('\r\n\r\n') || boundaries.isBetweenRequests) continue
      lineLengths.push(boundaries.lineLength)
      expect(boundaries.endHead({})).toBe(false)
      pieces.push('')
    }
  }
  pieces.pop()
  return { pieces, lineLengths }
}

function splitAt(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const positions = [...new Set(cuts.map(position => position % bytes.length))].sort(
    (one, other) => one - other,
  )
  return [0, ...positions].map((position, index) => bytes.subarray(position, positions[index]))
}

test('the parser receives one head at a time, regardless of how the bytes are split into segments', () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(...HEADS), { minLength: 1, maxLength: 6 }),
      fc.array(fc.nat(), { maxLength: 8 }),
      (heads, cuts) => {
        const { pieces, lineLengths } = cut(splitAt(Buffer.from(heads.join('')), cuts))
        expect(pieces).toEqual(heads)
        expect(lineLengths).toEqual(heads.map(head => head.trim().split('\r\n')[0]?.length))
      },
    ),
  )
})

test('a body ends at its length, and a chunked body at its last chunk, regardless of segments', () => {
  const body = 'a\r\n\r\nGET / HTTP/1.1\r\n\r\n'
  const chunked = '5\r\nhello\r\n0\r\n\r\n'
  const head = 'GET / HTTP/1.1\r\n\r\n'
  fc.assert(
    fc.property(fc.array(fc.nat(), { maxLength: 8 }), cuts => {
      for (const [headers, bytes] of [
        [{ 'content-length': String(body.length) }, body],
        [{ 'transfer-encoding': 'chunked' }, chunked],
      ] as const) {
        const boundaries = new RequestBoundaries()
        expect(boundaries.endHead(headers)).toBe(true)
        let taken = 0
        for (let rest of splitAt(Buffer.from(bytes + head), cuts)) {
          while (rest.length > 0 && taken < bytes.length) {
            const length = boundaries.take(rest)
            taken += length
            rest = rest.subarray(length)
          }
        }
        expect(taken).toBe(bytes.length)
      }
    }),
  )
})

test('no request line is longer than what has been received of it, and within a body there is none', () => {
  const boundaries = new RequestBoundaries()
  boundaries.take(Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n'))
  expect([boundaries.lineLength, boundaries.isWithinHead, boundaries.isBetweenRequests]).toEqual([
    14,
    true,
    false,
  ])
  boundaries.endHead({ 'content-length': '3' })
  expect([boundaries.lineLength, boundaries.isWithinHead, boundaries.isBetweenRequests]).toEqual([
    0,
    false,
    false,
  ])
  boundaries.take(Buffer.from('abc'))
  boundaries.endRequest()
  expect([boundaries.lineLength, boundaries.isWithinHead, boundaries.isBetweenRequests]).toEqual([
    0,
    true,
    true,
  ])
})
