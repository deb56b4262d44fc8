import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { canConfine, ImageTree, USER } from '../support/image-tree.ts'
import { type Listening, startPostern } from '../support/postern-process.ts'
import { RecordingUpstream } from '../support/recording-upstream.ts'
import { RedisServer } from '../support/redis-server.ts'
import { until } from '../support/until.ts'

const REVISION = '0123456789abcdef'
const PROGRAM = '/app/dist/main.js'

describe.skipIf(!canConfine())(
  "the image's files, on a read-only root as its own user (needs root and mount)",
  () => {
    let tree: ImageTree
    let redis: RedisServer
    let upstream: RecordingUpstream
    beforeAll(async () => {
      tree = new ImageTree(REVISION)
      redis = await RedisServer.start()
      upstream = await RecordingUpstream.start()
    }, 180_000)
    afterAll(async () => {
      await Promise.all([redis.stop(), upstream.stop()])
      tree.remove()
    })

    /** Runs Node in the tree until it exits. */
    function run(...args: string[]): Promise<{ code: unknown; output: string }> {
      const [program = '', ...words] = tree.launcher
      const { promise, resolve } = Promise.withResolvers<{ code: unknown; output: string }>()
      execFile(
        program,
        [...words, ...args],
        { env: { PATH: process.env['PATH'] } },
        (error, stdout, stderr) =>
          resolve({ code: error === null ? 0 : error.code, output: stdout + stderr }),
      )
      return promise
    }

    it('can be written only in /tmp and the volume', async () => {
      const tryIn = (place: string) => run('-e', `require('fs').writeFileSync('${place}/x', '')`)
      for (const place of ['/app', '/app/dist', '/nodejs/bin', '/', '/usr/lib']) {
        expect((await tryIn(place)).output).toMatch(/EROFS/)
      }
      const free = `const fs = require('fs'); for (const p of ['/tmp/x', '/var/lib/postern/x']) { fs.writeFileSync(p, ''); fs.rmSync(p) }`
      expect(await run('-e', free)).toEqual({ code: 0, output: '' })
    })

    it('has no development package, and every package that the program needs', async () => {
      const packages = readdirSync(join(tree.root, 'app/node_modules'))
      expect(packages).toContain('fastify')
      for (const name of ['vitest', 'typescript', 'node', 'fast-check']) expect(packages).not.toContain(name)
      expect(await run(PROGRAM, '--version')).toEqual({ code: 0, output: '0.1.0\n' })
    })

    it('rejects invalid settings with exit code 78', async () => {
      const { code, output } = await run(PROGRAM, 'gateway')
      expect(code).toBe(78)
      expect(output).toContain('upstream.url: is required')
    })

    it('runs both planes, serves a request with a key that it issued, and shuts down in order', async () => {
      const before = tree.files()
      const adminToken = randomBytes(24).toString('base64url')
      const shared = {
        POSTERN_REDIS_URL: redis.url,
        POSTERN_KEY_SERVICE_TOKEN: randomBytes(24).toString('base64url'),
        POSTERN_KEYS_SIGNING_SECRETS: randomBytes(32).toString('base64'),
        POSTERN_DRAIN_DELAY_MS: '0',
      }
      const launcher = [...tree.launcher, PROGRAM]
      const console = await startPostern(
        'console',
        {
          ...shared,
          POSTERN_ADMIN_TOKEN: adminToken,
          POSTERN_DATABASE_URL: 'sqlite:/var/lib/postern/postern.db',
        },
        [],
        launcher,
      )
      const gateway = await startPostern(
        'gateway',
        { ...shared, POSTERN_UPSTREAM_URL: upstream.url, POSTERN_KEY_SERVICE_URL: console.urls.internal },
        [],
        launcher,
      )
      onTestFinished(() => {
        for (const plane of [console, gateway]) plane.process.child.kill('SIGKILL')
      })
      for (const plane of [console, gateway])
        expect(rightsOf(plane)).toEqual([String(USER), '0000000000000000'])
      await until('the gateway is ready', async () => (await fetch(`${gateway.urls.ops}/readyz`)).ok)
      const metrics = await (await fetch(`${gateway.urls.ops}/metrics`)).text()
      expect(metrics).toContain(`revision="${REVISION}"`)

      // Files that no compiler would copy.
      const page = await (await fetch(`${console.urls.console}/sign-in`)).text()
      const stylesheet = /assets[^"]*\.css/.exec(page)?.[0]
      expect((await fetch(`${console.urls.console}/${stylesheet}`)).status).toBe(200)

      // As in the chart's notes: in the console's own image, with the token from a mounted file.
      writeFileSync(join(tree.data, 'token'), adminToken, { mode: 0o444 })
      const place = ['--url', console.urls.console, '--token-file', '/var/lib/postern/token']
      const words = ['--workspace', 'ws_1', '--scope', 'workspace:read', '--json']
      const issued = await run(PROGRAM, 'keys', 'issue', ...words, ...place)
      expect(issued.code, issued.output).toBe(0)
      const { secret } = JSON.parse(issued.output) as { secret: string }
      const headers = { authorization: `Bearer ${secret}` }
      const answer = await fetch(`${gateway.urls.gateway}/api/v1/workspaces/ws_1`, { headers })
      expect(answer.status).toBe(200)
      expect(upstream.requests).toHaveLength(1)

      for (const plane of [gateway, console]) {
        expect(await plane.process.stop('SIGTERM')).toMatchObject({ code: 0, stderr: '' })
      }
      expect(statSync(join(tree.data, 'postern.db')).uid).toBe(USER)
      expect(readdirSync(tree.tmp)).toEqual([])
      expect(tree.files()).toEqual(before)
    })

    /** User and capabilities of a process, from /proc. */
    function rightsOf({ process: { child } }: Listening): unknown[] {
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
      return [/^Uid:\t(\d+)/m.exec(status)?.[1], /^CapEff:\t(\S+)/m.exec(status)?.[1]]
    }
  },
)
