import { expect, test } from 'vitest'
import { OfferFilter } from '../../src/http/client-connection.ts'

/** @returns all that the parser receives of these segments */
function filtered(...segments: string[]): string {
  const filter = new OfferFilter()
  return segments.map(segment => filter.filter(Buffer.from(segment, 'latin1')).toString('latin1')).join('')
}

const HEAD = 'GET / HTTP/1.1\r\nUpgrade: h2c\r\nX-Upgrade: Upgrade: é\r\nUPGRADE: websocket\r\n\r\n'
const IGNORED =
  'GET / HTTP/1.1\r\nUpgrade-ignored: h2c\r\nX-Upgrade: Upgrade: é\r\nUPGRADE-ignored: websocket\r\n\r\n'

test('each field of an offer has another name, and all else is the same', () => {
  expect(filtered(HEAD)).toBe(IGNORED)
})

test('wherever a segment ends, also with one byte in each', () => {
  for (let cut = 1; cut < HEAD.length; cut++) {
    expect(filtered(HEAD.slice(0, cut), HEAD.slice(cut))).toBe(IGNORED)
  }
  expect(filtered(...HEAD)).toBe(IGNORED)
})

test('heads that follow each other on a connection are filtered alike', () => {
  expect(filtered(HEAD, HEAD, ...HEAD)).toBe(IGNORED.repeat(3))
})

test('a head without an offer is passed on as it is, without a copy', () => {
  const bytes = Buffer.from('GET /upgrade: HTTP/1.1\r\nHost: a\r\nX-Upgrade: 1\r\n\r\n')
  expect(new OfferFilter().filter(bytes)).toBe(bytes)
})
