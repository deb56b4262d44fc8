import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { BuiltImage, canConfine, copyOfContext, USER } from '../support/built-image.ts'
import { Parts } from '../support/parts.ts'
import type { Listening } from '../support/postern-process.ts'
import { standInImages } from '../support/stand-in-images.ts'
import { V8_FLAGS } from '../support/start-arguments.ts'
import { BUILDAH, DEBOOTSTRAP, has } from '../support/tools.ts'
import { until } from '../support/until.ts'

const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url))
const REVISION = '0123456789abcdef'
const PROGRAM = '/app/dist/main.js'
/** On the path, for `docker exec` and `kubectl exec`. */
const COMMAND = '/usr/local/bin/postern'

/** The part of CycloneDX that is compared. */
interface Component {
  readonly name: string
  readonly version: string
  readonly purl?: string
  readonly components?: readonly Component[]
}
interface Sbom {
  readonly serialNumber: string
  readonly components: readonly Component[]
}

interface LockedPackage {
  readonly version: string
  readonly dev?: true
  readonly devOptional?: true
  readonly optional?: true
}

const LOCKED = (
  JSON.parse(readFileSync(join(CHECKOUT, 'package-lock.json'), 'utf8')) as {
    packages: Readonly<Record<string, LockedPackage>>
  }
).packages
/** Packages for production, by their folder in a checkout. */
const PRODUCTION = Object.keys(LOCKED).filter(folder => {
  const { dev, devOptional, optional } = LOCKED[folder] ?? {}
  return folder !== '' && !dev && !devOptional && !optional
})

const isPossible = has(BUILDAH) && has(DEBOOTSTRAP) && canConfine()

describe.skipIf(!isPossible)(
  'the image, built and started on a read-only root as its own user (needs buildah, debootstrap, root and mount)',
  () => {
    let image: BuiltImage
    const parts = new Parts()
    beforeAll(async () => {
      standInImages()
      const context = copyOfContext()
      image = new BuiltImage(await BuiltImage.build(REVISION, context))
      rmSync(context, { recursive: true })
    }, 4_000_000)
    afterAll(async () => {
      await parts.stop()
      image?.remove()
    })

    /** Runs Node in the tree until it exits. */
    function run(...args: string[]): Promise<{ code: unknown; output: string }> {
      const [program = '', ...words] = image.launcher
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

    it('holds the program, and no source maps, types, sources, tests or documents', () => {
      const files = image.files().filter(file => file.startsWith('app/'))
      expect(files).toContain('app/dist/main.js')
      const foreign = /\.(?:map|ts|mts|cts|md|yml|html?)$|\/(?:test|tests|docs|\.github|\.bin)(?:\/|$)/i
      expect(files.filter(file => foreign.test(file) && !/\/licen[cs]e\.md$/i.test(file))).toEqual([])
      // A builder leaves such files in a stage in which something ran.
      expect(image.files().filter(file => /^etc\/(?:hosts|hostname|resolv\.conf)$/.test(file))).toEqual([])
    })

    it('lists each npm package with its version, Node and what it is linked with, and the packages of Debian', () => {
      const { components, serialNumber } = JSON.parse(
        readFileSync(join(image.root, 'app/sbom.cdx.json'), 'utf8'),
      ) as Sbom
      const listed = components.map(({ name, version }) => `${name}@${version}`)
      const production = PRODUCTION.map(
        folder => `${folder.replace(/^.*node_modules\//, '')}@${LOCKED[folder]?.version}`,
      )
      expect(production.length).toBeGreaterThan(50)
      expect(production.filter(name => !listed.includes(name))).toEqual([])
      const names = components.map(({ name }) => name)
      for (const name of ['vitest', 'typescript', 'fast-check']) expect(names).not.toContain(name)
      const node = components.find(({ name }) => name === 'node')
      expect(node?.version).toBe(process.versions.node)
      expect(node?.components?.map(({ name }) => name)).toEqual(
        expect.arrayContaining(['openssl', 'v8', 'sqlite']),
      )
      const debian = components.flatMap(({ purl = '' }) => /^pkg:deb\/debian\/([^@]+)@/.exec(purl)?.[1] ?? [])
      const kept = readdirSync(join(image.root, 'var/lib/dpkg/status.d'))
      expect(debian.map(decodeURIComponent)).toEqual(kept.sort())
      expect(debian).toContain('libc6')
      expect(serialNumber).toMatch(/^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
    })

    it('keeps the licence of each package that has one', () => {
      const missing = PRODUCTION.filter(folder => {
        const isLicence = (file: string) => /^licen[cs]e/i.test(file)
        const isIn = (place: string) => existsSync(place) && readdirSync(place).some(isLicence)
        const kept = join(image.root, 'app/licences', folder.slice('node_modules/'.length))
        return isIn(join(CHECKOUT, folder)) && !isIn(kept)
      })
      expect(missing).toEqual([])
    })

    it('is started by what the Dockerfile says, as the user of the chart', () => {
      expect(image.config()).toMatchObject({ User: '65532:65532', Cmd: ['--help'] })
      expect(image.config()['Entrypoint']).toEqual(['/nodejs/bin/node', ...V8_FLAGS, PROGRAM])
    })

    it('can be written only in /tmp and the volume', async () => {
      const tryIn = (place: string) => run('-e', `require('fs').writeFileSync('${place}/x', '')`)
      for (const place of ['/app', '/app/dist', '/nodejs/bin', '/', '/usr/lib']) {
        expect((await tryIn(place)).output).toMatch(/EROFS/)
      }
      const free = `const fs = require('fs'); for (const p of ['/tmp/x', '/var/lib/postern/x']) { fs.writeFileSync(p, ''); fs.rmSync(p) }`
      expect(await run('-e', free)).toEqual({ code: 0, output: '' })
    })

    it('needs no package beside the program', async () => {
      expect(image.files().filter(file => file.startsWith('app/node_modules'))).toEqual([])
      expect(await run(PROGRAM, '--version')).toEqual({ code: 0, output: '0.1.0\n' })
    })

    it('has the command postern on its path', async () => {
      const command = join(image.root, COMMAND)
      expect(statSync(command).mode & 0o111).toBe(0o111)
      expect(readFileSync(command, 'utf8')).toMatch(/^#!\/nodejs\/bin\/node\n/)
      expect(await run(COMMAND, '--version')).toEqual({ code: 0, output: '0.1.0\n' })
    })

    it('rejects invalid settings with exit code 78', async () => {
      const { code, output } = await run(PROGRAM, 'gateway')
      expect(code).toBe(78)
      expect(output).toContain('upstream.url: is required')
    })

    it('runs both planes, serves a request with a key that it issued, and shuts down in order', async () => {
      const before = image.files()
      const redis = await parts.redis()
      const upstream = await parts.upstream()
      const launcher = [...image.launcher, PROGRAM]
      const settings = { POSTERN_REDIS_URL: redis.url }
      const database = { POSTERN_DATABASE_URL: 'sqlite:/var/lib/postern/postern.db' }
      const console = await parts.console({ ...settings, ...database }, launcher)
      const urls = { POSTERN_UPSTREAM_URL: upstream.url, POSTERN_KEY_SERVICE_URL: console.urls.internal }
      const gateway = await parts.gateway({ ...settings, ...urls }, launcher)
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
      writeFileSync(join(image.data, 'token'), parts.adminToken, { mode: 0o444 })
      const place = ['--url', console.urls.console, '--token-file', '/var/lib/postern/token']
      const words = ['--workspace', 'ws_1', '--scope', 'workspace:read', '--json']
      const issued = await run(COMMAND, 'keys', 'issue', ...words, ...place)
      expect(issued.code, issued.output).toBe(0)
      const { secret } = JSON.parse(issued.output) as { secret: string }
      const headers = { authorization: `Bearer ${secret}` }
      const answer = await fetch(`${gateway.urls.gateway}/api/v1/workspaces/ws_1`, { headers })
      expect(answer.status).toBe(200)
      expect(upstream.requests).toHaveLength(1)

      for (const plane of [gateway, console]) {
        expect(await plane.process.stop('SIGTERM')).toMatchObject({ code: 0, stderr: '' })
      }
      expect(statSync(join(image.data, 'postern.db')).uid).toBe(USER)
      expect(readdirSync(image.tmp)).toEqual([])
      expect(image.files()).toEqual(before)
    })

    /** User and capabilities of a process, from /proc. */
    function rightsOf({ process: { child } }: Listening): unknown[] {
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
      return [/^Uid:\t(\d+)/m.exec(status)?.[1], /^CapEff:\t(\S+)/m.exec(status)?.[1]]
    }
  },
)
