import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { HAPROXY, has } from '../support/tools.ts'
import { until } from '../support/until.ts'
import { startWorld, type World } from '../support/world.ts'

const page = readFileSync(new URL('../../docs/behind/load-balancers.md', import.meta.url), 'utf8')
const [WHOLE = '', PUBLIC_ONLY = ''] = [...page.matchAll(/^```haproxy\n([\s\S]*?)^```$/gm)].map(
  ([, block = '']) => block,
)
const BEFORE_BACKEND = WHOLE.slice(0, WHOLE.indexOf('\nbackend gateways\n') + 1)

describe.skipIf(!has(HAPROXY))('a health check of HAProxy, as docs/behind/load-balancers.md says', () => {
  const directory = mkdtempSync(join(tmpdir(), 'postern-haproxy-'))
  const statistics = join(directory, 'statistics')
  let world: World
  let haproxy: ChildProcess | null = null
  beforeAll(async () => {
    world = await startWorld({ POSTERN_DRAIN_DELAY_MS: '60000' })
  })
  afterEach(async () => {
    if (haproxy === null) return
    const ended = haproxy.exitCode === null ? once(haproxy, 'exit') : null
    haproxy.kill('SIGKILL')
    await ended
    haproxy = null
  })
  afterAll(async () => {
    await world?.stop()
    rmSync(directory, { recursive: true, force: true })
  })

  /** Whether HAProxy sends requests to the gateway, and what the last check found. */
  async function serverState(): Promise<readonly [status: string, check: string, code: string]> {
    const socket = connect(statistics)
    socket.write('show stat\n')
    const [titles = '', ...lines] = (await text(socket)).split('\n')
    const names = titles.replace('# ', '').split(',')
    const server = lines.find(line => line.startsWith('gateways,gateway1,'))?.split(',') ?? []
    const named = (name: string) => server[names.indexOf(name)] ?? ''
    return [named('status'), named('check_status'), named('check_code')]
  }

  async function firstCheck(config: string): Promise<readonly string[]> {
    const { gateway, ops } = world.gateway.urls
    const file = join(directory, 'haproxy.cfg')
    const ours = config
      .replace('127.0.0.1:8000', `127.0.0.1:${await freePort()}`)
      .replaceAll('127.0.0.1:8080', new URL(gateway).host)
      .replaceAll('9090', new URL(ops).port)
    writeFileSync(file, `global\n  stats socket ${statistics}\n${ours}`)
    haproxy = spawn('haproxy', ['-db', '-q', '-f', file], { stdio: ['ignore', 'ignore', 'inherit'] })
    await until('HAProxy has checked the gateway', async () =>
      /^L\d/.test((await serverState().catch(() => ['', '', '']))[1] ?? ''),
    )
    return serverState()
  }

  test('of the public port with the default of HAProxy fails, as the page says', async () => {
    const unset = WHOLE.replace('httpchk GET /readyz', 'httpchk')
      .replace(' port 9090', '')
      .replace('fall 2', 'fall 1')
    expect(await firstCheck(unset)).toEqual(['DOWN', 'L7STS', '400'])
  })

  test('of the public port alone finds that the gateway answers', async () => {
    expect(await firstCheck(BEFORE_BACKEND + PUBLIC_ONLY)).toEqual(['UP', 'L7OK', '401'])
  })

  test('of the ops port finds it ready, and takes it out of service as soon as it drains', async () => {
    expect(await firstCheck(WHOLE)).toEqual(['UP', 'L7OK', '200'])
    world.gateway.process.child.kill('SIGTERM')
    await until('HAProxy sends nothing more', async () => (await serverState())[0] === 'DOWN')
    expect((await serverState()).slice(1)).toEqual(['L7STS', '503'])
    // It still serves what is sent before the balancer has noticed.
    expect((await fetch(`${world.gateway.urls.gateway}/api/v1/auth`)).status).toBe(401)
  })
})
