import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { authorize } from '../../src/domain/authorize.ts'
import { denialRow } from '../../src/domain/denial.ts'
import { createCheckHandler } from '../../src/gateway/check-mode.ts'
import type { Assertions } from '../../src/upstream/assertion/assertions.ts'
import type { ClientRequest, Deny } from '../../src/upstream/client-request.ts'
import { exampleRecord, grantOf, matchOf, NOW_MS } from '../domain/examples.ts'

const TARGET = '/api/v1/workspaces/ws_1/files?limit=5'
let server: Server
let observation: ClientRequest['observation']
afterEach(() => server.close())

const deny: Deny = ({ response }, { reason }) => {
  response.writeHead(denialRow(reason).status).end()
}

/** The answer to a permitted request of a gateway with these assertions. */
async function answerWith(assertionFor: Assertions['assertionFor'] | null): Promise<Response> {
  const verdict = authorize({
    lookup: { kind: 'found', grant: grantOf(exampleRecord({ workspaceId: 'ws_1' })), tier: 'memory' },
    match: matchOf('files', { workspaceId: 'ws_1' }),
    query: 'limit=5',
    nowMs: NOW_MS,
    clientAddress: '127.0.0.1',
  })
  if (verdict.kind !== 'permitted') throw new Error(verdict.reason)
  const { permit } = verdict
  const answer = createCheckHandler(assertionFor === null ? null : { assertionFor }, deny)
  server = createServer((message, response) => {
    // The answer reads nothing else of an observation.
    observation = { requestId: 'id' } as unknown as ClientRequest['observation']
    try {
      answer({ message, response, observation }, permit)
    } catch {
      response.destroy()
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A server that listens on TCP has such an address.
  const { port } = server.address() as AddressInfo
  return fetch(`http://127.0.0.1:${port}/check`)
}

test('there is no assertion unless one is configured', async () => {
  const { status, headers } = await answerWith(null)
  expect([status, headers.get('x-postern-workspace-id'), headers.get('x-postern-assertion')]).toEqual([
    200,
    'ws_1',
    null,
  ])
})

test.each<[when: string, wrap: (text: string) => string | Promise<string>]>([
  ['that is reused', text => text],
  ['that has to be signed', text => Promise.resolve(text)],
])('an assertion %s is for the target that the proxy forwards', async (_, wrap) => {
  const { status, headers } = await answerWith((grant, target) => wrap(`${grant.workspaceId} ${target}`))
  expect([status, headers.get('x-postern-assertion')]).toEqual([200, `ws_1 ${TARGET}`])
})

test('without its assertion no request is permitted', async () => {
  const { status, headers } = await answerWith(() => Promise.reject(new Error('no signing key')))
  expect([status, headers.get('x-postern-workspace-id')]).toEqual([500, null])
  expect(observation.fault).toBe('assertion')
})
