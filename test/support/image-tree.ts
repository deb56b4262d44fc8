import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url))
/** The user that the image runs as. */
export const USER = 65532
/** System files of the base image: the C library and what it loads. */
const SYSTEM = ['lib', 'lib64', 'usr/lib']

/** Mounts the tree read-only except for /tmp and the volume, and runs Node in it as the image's user. */
const CONFINE = `
set -e
root=$1 node=$2 data=$3 tmp=$4; shift 4
mount --bind "$root" "$root"
for place in ${SYSTEM.join(' ')}; do
  [ -d "/$place" ] || continue
  mount --bind "/$place" "$root/$place"
  mount -o remount,bind,ro "$root/$place"
done
mount --bind "$node" "$root/nodejs/bin/node"
mount --bind /dev/null "$root/dev/null"
mount -t proc proc "$root/proc"
mount -o remount,bind,ro "$root"
mount --bind "$data" "$root/var/lib/postern"
mount --bind "$tmp" "$root/tmp"
exec /usr/sbin/chroot --userspec=${USER}:${USER} --groups= "$root" /nodejs/bin/node "$@"
`

/** Whether this machine allows mounts: as root, and not in a container that forbids them. */
export function canConfine(): boolean {
  return (
    process.getuid?.() === 0 &&
    spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0
  )
}

/** The files of the image, made as its Dockerfile makes them: production packages from the lock file, and the output of tsc. */
export class ImageTree {
  readonly #directory = mkdtempSync(join(tmpdir(), 'postern-image-'))
  readonly root = join(this.#directory, 'root')
  readonly data = join(this.#directory, 'data')
  readonly tmp = join(this.#directory, 'tmp')

  constructor(revision: string) {
    chmodSync(this.#directory, 0o755)
    const app = join(this.root, 'app')
    for (const place of ['dev', 'proc', 'tmp', 'nodejs/bin', 'var/lib/postern', 'app', ...SYSTEM]) {
      mkdirSync(join(this.root, place), { recursive: true })
    }
    for (const file of ['dev/null', 'nodejs/bin/node']) writeFileSync(join(this.root, file), '')
    for (const place of [this.data, this.tmp]) {
      mkdirSync(place)
      chownSync(place, USER, USER)
    }
    for (const file of ['package.json', 'package-lock.json', '.npmrc', 'config', 'LICENSE']) {
      cpSync(join(CHECKOUT, file), join(app, file), { recursive: true })
    }
    execFileSync('npm', ['ci', '--omit=dev', '--no-progress', '--loglevel=error'], {
      cwd: app,
      stdio: 'pipe',
    })
    const build = ['-p', join(CHECKOUT, 'tsconfig.build.json'), '--outDir', join(app, 'dist')]
    execFileSync(join(CHECKOUT, 'node_modules/.bin/tsc'), build, { stdio: 'pipe' })
    const assets = 'control/console/assets'
    cpSync(join(CHECKOUT, 'src', assets), join(app, 'dist', assets), { recursive: true })
    writeFileSync(join(app, 'dist/REVISION'), `${revision}\n`)
  }

  /** Command line that runs Node in the tree; its arguments follow. */
  get launcher(): readonly string[] {
    const shell = ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', CONFINE, 'confine']
    return [...shell, this.root, process.execPath, this.data, this.tmp]
  }

  /** Every file of the tree, except those of the base image. */
  files(): string[] {
    return readdirSync(this.root, { recursive: true, encoding: 'utf8' }).sort()
  }

  remove(): void {
    rmSync(this.#directory, { recursive: true, force: true })
  }
}
