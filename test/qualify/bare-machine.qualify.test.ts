import { execFile, execFileSync } from 'node:child_process'
import { copyFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { canConfine } from '../support/built-image.ts'
import { buildah, standInImages } from '../support/stand-in-images.ts'
import { BUILDAH, DEBOOTSTRAP, has } from '../support/tools.ts'

const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url))
const CHROOT = '/usr/sbin/chroot'
const DEADLINE_MS = 3_600_000
const ENVIRONMENT = [
  'HOME=/home/dev',
  'USER=dev',
  'PATH=/usr/local/bin:/usr/bin:/bin',
  'NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt',
  // Where this machine has mirrors of npm and PyPI.
  ...Object.entries(process.env)
    .filter(([name]) => /^(?:npm_config_registry|pip_index_url)$/i.test(name))
    .map(([name, value]) => `${name}=${value}`),
]

/** In a namespace of processes, which ends with all that the tests started. */
const CONFINE = `
set -e
root=$1; shift
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
exec ${CHROOT} --userspec=dev:dev "$root" /usr/bin/env -i "$@"
`

const isPossible = has(BUILDAH) && has(DEBOOTSTRAP) && canConfine()

describe.skipIf(!isPossible)('on a Debian with Node, npm and nothing else', () => {
  let container: string
  let root: string
  beforeAll(() => {
    container = buildah('from', '--pull-never', standInImages().build)
    root = buildah('mount', container)
    // It comes with the certificates that npm trusts here.
    rmSync(join(root, 'usr/bin/openssl'), { force: true })
    for (const file of ['/etc/resolv.conf', '/etc/hosts']) copyFileSync(file, join(root, file))
    execFileSync(CHROOT, [root, '/usr/sbin/useradd', '--create-home', 'dev'])
    execFileSync('git', ['clone', '--quiet', '--no-hardlinks', CHECKOUT, join(root, 'home/dev/postern')])
    execFileSync(CHROOT, [root, '/bin/chown', '--recursive', 'dev:dev', '/home/dev'])
  }, DEADLINE_MS)
  afterAll(() => {
    buildah('rm', container)
  })

  it(
    'npm ci && npm test is all that a fresh clone needs',
    async () => {
      const command = ['sh', '-c', 'cd ~/postern && npm ci && npm test']
      const { code, output } = await runConfined(root, [...ENVIRONMENT, ...command])
      const summary = output.slice(-2_000)
      process.stdout.write(`\n${summary}\n`)
      expect(code, output.slice(-50_000)).toBe(0)
      expect(summary).toMatch(/tests of \d{3} files passed and 0 failed, in \d+ s with Valkey /)
    },
    DEADLINE_MS,
  )
})

function runConfined(root: string, words: readonly string[]): Promise<{ code: unknown; output: string }> {
  const { promise, resolve } = Promise.withResolvers<{ code: unknown; output: string }>()
  execFile(
    'unshare',
    [
      ...['--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child'],
      ...['sh', '-c', CONFINE, 'confine', root, ...words],
    ],
    { timeout: DEADLINE_MS, maxBuffer: 2 ** 28 },
    (error, stdout, stderr) => resolve({ code: error === null ? 0 : error.code, output: stderr + stdout }),
  )
  return promise
}
