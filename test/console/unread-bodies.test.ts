import { expect, test } from 'vitest'
import { startConsole } from '../support/console.ts'
import { GithubDouble } from '../support/github-double.ts'
import { RawClient } from '../support/raw-client.ts'

const LENGTH = 60_000
const UNKNOWN_KEY = 'Github-Public-Key-Identifier: unknown\r\nGithub-Public-Key-Signature: MEUCIQDx'

/** Sends a head that announces a body, and no byte of it. @returns the status, once the connection has closed */
async function statusOf(
  url: string,
  path: string,
  ...fields: readonly string[]
): Promise<number | undefined> {
  const lines = [`POST ${path} HTTP/1.1`, 'Host: a', 'Content-Type: application/json', ...fields]
  const client = new RawClient(url)
  client.send(`${[...lines, `Content-Length: ${LENGTH}`].join('\r\n')}\r\n\r\n`)
  const [answer] = await client.untilClosed()
  return answer?.status
}

test('a client that is not authenticated gets its response, and its connection closes, before a body is read', async () => {
  const github = await GithubDouble.start()
  const running = await startConsole({ leaks: { enabled: true, github: { keysUrl: github.keysUrl } } })
  const publicUrl = await running.app.listen({ host: '127.0.0.1', port: 0 })
  const internalUrl = await running.internal.listen({ host: '127.0.0.1', port: 0 })
  const wrong = 'Authorization: Bearer wrong'
  const statuses = {
    'unknown path': await statusOf(publicUrl, '/nothing'),
    'unknown path, in a browser': await statusOf(publicUrl, '/nothing', 'Accept: text/html'),
    'a page that has no form': await statusOf(publicUrl, '/workspaces'),
    'admin API without a token': await statusOf(publicUrl, '/admin/v1/import'),
    'admin API with a wrong token': await statusOf(publicUrl, '/admin/v1/import', wrong),
    'admin API, unknown path': await statusOf(publicUrl, '/admin/v1/nothing', wrong),
    'a form without a session': await statusOf(publicUrl, '/workspaces/ws_1/keys/new'),
    'a key to find without a session': await statusOf(publicUrl, '/find-key'),
    'leak report without a signature': await statusOf(publicUrl, '/leaks'),
    'leak report, unknown key': await statusOf(publicUrl, '/leaks', UNKNOWN_KEY),
    'leak report, unknown path': await statusOf(publicUrl, '/leaks/nothing'),
    'leak report, too long': await statusOf(publicUrl, '/leaks/report'),
    'key service without a token': await statusOf(internalUrl, '/internal/v1/lookups'),
    'key service with a wrong token': await statusOf(internalUrl, '/internal/v1/usage', wrong),
    'key service, unknown path': await statusOf(internalUrl, '/nothing'),
  }
  expect(statuses).toEqual({
    'unknown path': 404,
    'unknown path, in a browser': 404,
    'a page that has no form': 404,
    'admin API without a token': 401,
    'admin API with a wrong token': 401,
    'admin API, unknown path': 401,
    'a form without a session': 303,
    'a key to find without a session': 303,
    'leak report without a signature': 403,
    'leak report, unknown key': 403,
    'leak report, unknown path': 404,
    'leak report, too long': 413,
    'key service without a token': 401,
    'key service with a wrong token': 401,
    'key service, unknown path': 404,
  })
})

test('an address can have eight signed reports on their way, each up to 1 MiB; a further one is asked to come later', async () => {
  const github = await GithubDouble.start()
  const running = await startConsole({ leaks: { enabled: true, github: { keysUrl: github.keysUrl } } })
  const url = await running.app.listen({ host: '127.0.0.1', port: 0 })
  const { headers } = github.sign('[]')
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  const slow = Array.from({ length: 8 }, () => new RawClient(url))
  for (const client of slow) {
    client.send(`POST /leaks HTTP/1.1\r\nHost: a\r\n${fields.join('\r\n')}\r\nContent-Length: 2\r\n\r\n[`)
  }
  expect(await statusOf(url, '/leaks', ...fields)).toBe(503)
  for (const client of slow) {
    client.send(']')
    expect((await client.answers(1)).map(({ status }) => status)).toEqual([200])
    client.end()
  }
  const after = new RawClient(url)
  after.send(`POST /leaks HTTP/1.1\r\nHost: a\r\n${fields.join('\r\n')}\r\nContent-Length: 2\r\n\r\n[]`)
  expect((await after.answers(1)).map(({ status }) => status)).toEqual([200])
  after.end()
})
