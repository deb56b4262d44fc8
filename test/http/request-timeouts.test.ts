import { expect, test } from 'vitest'
import { requestTimeouts } from '../../src/http/server-options.ts'

test.each([
  [60_000, 1_000],
  [1_000, 1_000],
  [200, 200],
])(
  'with %i ms for head and body, a request is at most %i ms late when its connection closes',
  (timeoutMs, lateMs) => {
    expect(requestTimeouts(timeoutMs)).toEqual({
      headersTimeout: timeoutMs,
      requestTimeout: timeoutMs,
      connectionsCheckingInterval: lateMs,
    })
  },
)
