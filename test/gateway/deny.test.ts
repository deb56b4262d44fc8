import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { describe, expect, test, vi } from 'vitest'
import { DENIAL_REASONS, type DenialReason, denialRow, denied } from '../../src/domain/denial.ts'
import { createDeny, prepareDenials } from '../../src/gateway/responses.ts'
import type { ClientRequest } from '../../src/upstream/client-request.ts'
import { settled } from '../support/until.ts'

function requestOf() {
  const message = new IncomingMessage(new Socket())
  const response = new ServerResponse(message)
  const observation = { requestId: 'req-1', reason: null, source: 'gateway', responseBytes: 0, fault: null }
  // A denial reads and writes no other part of an observation.
  return { message, response, observation } as unknown as ClientRequest
}

/** Denies a request, and releases its delay if it has one. */
async function deny(reason: DenialReason, closesConnection?: boolean) {
  const request = requestOf()
  const handedOver = vi.fn()
  const { promise, resolve } = Promise.withResolvers<void>()
  createDeny({ delayRejection: () => promise }, { handedOver })(request, denied(reason), closesConnection)
  await settled()
  const isDelayed = !request.response.headersSent
  const countedBefore = handedOver.mock.calls.length === 0
  resolve()
  await settled()
  return { ...request, isDelayed, countedBefore }
}

describe.each(DENIAL_REASONS)('%s', reason => {
  const row = denialRow(reason)

  test('is answered with its status, and logged with its reason and who is responsible', async () => {
    const { response, observation } = await deny(reason)
    expect([response.statusCode, response.headersSent]).toEqual([row.status, true])
    expect(observation).toMatchObject({
      reason,
      source: row.responsible === 'upstream' ? 'upstream' : 'gateway',
      responseBytes: JSON.stringify({ code: row.code, error: row.text }).length,
    })
  })

  test('waits for the process to have time, and no longer counts as in flight, only if it is one of overload', async () => {
    const { isDelayed, countedBefore } = await deny(reason)
    const isOfOverload = row.delayedUnderOverload === true
    expect([isDelayed, countedBefore]).toEqual([isOfOverload, !isOfOverload])
  })

  test('ends its connection if it has to, or if the request could be followed by its own body', async () => {
    const closes = async (more?: boolean) => (await deny(reason, more)).response.getHeader('connection')
    expect(await closes()).toBe(row.closesConnection === true ? 'close' : undefined)
    expect(await closes(true)).toBe('close')
  })
})

test('a denial that cannot be written ends the connection, and the log says why', async () => {
  const request = requestOf()
  const delayRejection = () => Promise.reject(new Error('no timer'))
  createDeny({ delayRejection }, { handedOver: () => {} })(request, denied('overloaded'))
  await settled()
  expect(request.response.destroyed).toBe(true)
  expect(request.observation.fault).toMatch(/no timer/)
})

describe('the responses of a listener', () => {
  const prepare = () =>
    prepareDenials(({ reason, detail = '', scope = '', retryAfterSeconds = 0 }) => {
      return { status: 400, headers: {}, body: [reason, detail, scope, retryAfterSeconds].join() }
    })
  const responseTo = prepare()
  const bodyOf = (...denial: Parameters<typeof denied>) => String(responseTo(denied(...denial)).body)

  test('are built once for each reason', () => {
    const ofNewListener = prepare()
    expect(ofNewListener(denied('key_invalid'))).toBe(ofNewListener(denied('key_invalid')))
    expect([bodyOf('key_invalid'), bodyOf('key_missing')]).toEqual(['key_invalid,,,0', 'key_missing,,,0'])
  })

  test.each([
    [{ detail: 'a' }, 'invalid_query,a,,0'],
    [{ scope: 'b' }, 'invalid_query,,b,0'],
    [{ retryAfterSeconds: 7 }, 'invalid_query,,,7'],
  ])('with a detail of their request are built for it alone: %j', (more, expected) => {
    expect(bodyOf('invalid_query')).toBe('invalid_query,,,0')
    expect(bodyOf('invalid_query', more)).toBe(expected)
    expect(bodyOf('invalid_query')).toBe('invalid_query,,,0')
  })
})
