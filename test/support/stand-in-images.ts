import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheDirectory } from './cache-directory.ts'

const NODE = fileURLToPath(new URL('../../node_modules/node/bin/node', import.meta.url))
const CACHE = cacheDirectory('postern-image')
const MACHINE_CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt'
/** What gcr.io/distroless/cc holds. */
const RUNTIME_PACKAGES = [
  'base-files',
  'ca-certificates',
  'gcc-12-base',
  'libc6',
  'libgcc-s1',
  'libgomp1',
  'libssl3',
  'libstdc++6',
  'netbase',
  'tzdata',
]

export const BUILDAH_STORE: readonly string[] = [
  ...['--root', join(CACHE, 'store'), '--runroot', join(CACHE, 'run'), '--storage-driver', 'overlay'],
]
export const BUILDAH_ENV = {
  PATH: process.env['PATH'],
  HOME: homedir(),
  TMPDIR: tmpdir(),
  BUILDAH_ISOLATION: 'chroot',
}

/** Runs buildah on a store of its own. @returns its output */
export function buildah(...words: readonly string[]): string {
  return execFileSync('buildah', [...BUILDAH_STORE, ...words], {
    encoding: 'utf8',
    env: BUILDAH_ENV,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 300_000,
    maxBuffer: 2 ** 26,
  }).trim()
}

/**
 * Stand-ins for the two base images of the Dockerfile, made of Debian packages and npm's `node`, so that the real Dockerfile is
 * built where no image registry can be reached. They are made once per machine.
 */
export function standInImages(): { readonly build: string; readonly runtime: string } {
  const recipe = readFileSync(fileURLToPath(import.meta.url), 'utf8')
  const key = createHash('sha256').update(recipe).update(process.version).digest('hex').slice(0, 12)
  const images = { build: `localhost/stand-in-build:${key}`, runtime: `localhost/stand-in-runtime:${key}` }
  const present = buildah('images', '--format', '{{.Name}}:{{.Tag}}').split('\n')
  for (const [image, make, env] of [
    [images.build, makeBuildRoot, `NODE_EXTRA_CA_CERTS=${MACHINE_CERTIFICATES}`],
    [images.runtime, makeRuntimeRoot, `SSL_CERT_FILE=${MACHINE_CERTIFICATES}`],
  ] as const) {
    if (present.includes(image)) continue
    const directory = mkdtempSync(join(tmpdir(), 'postern-stand-in-'))
    const root = join(directory, 'root')
    mkdirSync(root)
    make(root, directory)
    const container = buildah('from', 'scratch')
    buildah('copy', '--quiet', container, root, '/')
    buildah('config', '--env', 'PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin', container)
    buildah('config', '--env', env, container)
    buildah('commit', '--quiet', '--rm', container, image)
    rmSync(directory, { recursive: true })
  }
  return images
}

/**
 * As node:24-bookworm-slim: a small Debian with Node, its licence and npm in /usr/local. npm trusts the certificates that this
 * machine trusts.
 */
function makeBuildRoot(root: string): void {
  const release = readFileSync('/etc/os-release', 'utf8')
  const codename = /^VERSION_CODENAME=(\w+)$/m.exec(release)?.[1] ?? 'stable'
  run('debootstrap', '--variant=minbase', '--include=ca-certificates', codename, root)
  const local = join(root, 'usr/local')
  const npm = dirname(dirname(realpathSync(run('sh', '-c', 'command -v npm').trim())))
  cpSync(npm, join(local, 'lib/node_modules/npm'), { recursive: true })
  symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(local, 'bin/npm'))
  copyFileSync(NODE, join(local, 'bin/node'))
  chmodSync(join(local, 'bin/node'), 0o755)
  writeFileSync(join(local, 'LICENSE'), 'The licence of Node stands here in the real image.\n')
  if (existsSync(MACHINE_CERTIFICATES)) copyFileSync(MACHINE_CERTIFICATES, join(root, MACHINE_CERTIFICATES))
}

/** As gcr.io/distroless/cc: libraries, certificates and time zones, with the control data of each package in its own file. */
function makeRuntimeRoot(root: string, directory: string): void {
  run('sh', '-c', `cd '${directory}' && apt-get download -q ${RUNTIME_PACKAGES.join(' ')}`)
  const control = join(root, 'var/lib/dpkg/status.d')
  mkdirSync(control, { recursive: true })
  for (const file of globSync(join(directory, '*.deb'))) {
    run('dpkg-deb', '--extract', file, root)
    const fields = run('dpkg-deb', '--field', file)
    writeFileSync(join(control, /^Package: (.*)$/m.exec(fields)?.[1] ?? ''), fields)
  }
  for (const place of ['doc', 'man', 'lintian', 'bug']) {
    rmSync(join(root, 'usr/share', place), { recursive: true, force: true })
  }
  for (const place of ['tmp', 'home/nonroot', 'proc', 'sys', 'dev', 'etc/ssl/certs'])
    mkdirSync(join(root, place), { recursive: true })
  chmodSync(join(root, 'tmp'), 0o1777)
  const certificates = globSync(join(root, 'usr/share/ca-certificates/**/*.crt')).sort()
  const bundle = certificates.map(file => readFileSync(file, 'utf8')).join('')
  writeFileSync(join(root, MACHINE_CERTIFICATES), bundle)
  const user = 'nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n'
  writeFileSync(join(root, 'etc/passwd'), `root:x:0:0:root:/root:/sbin/nologin\n${user}`)
  writeFileSync(join(root, 'etc/group'), 'root:x:0:\nnonroot:x:65532:\n')
}

function run(program: string, ...words: readonly string[]): string {
  const env = {
    ...process.env,
    PATH: `${process.env['PATH']}:/usr/sbin:/sbin`,
    DEBIAN_FRONTEND: 'noninteractive',
  }
  return execFileSync(program, words, {
    encoding: 'utf8',
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 300_000,
    maxBuffer: 2 ** 26,
  })
}
