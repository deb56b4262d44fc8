import { execFile, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
} from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { BUILDAH_ENV, BUILDAH_STORE, buildah, standInImages } from './stand-in-images.ts'

const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url))
/** The user that the image runs as. */
export const USER = 65532
/** As a release does: the time of the commit, here any. */
const SOURCE_DATE_EPOCH = 1_700_000_000

/** It ends a build that hangs; one takes seven minutes where thirty programs wait for two cores. */
const BUILD_DEADLINE_MS = 1_800_000

/** Mounts the image read-only except for /tmp and the volume, as the chart does, and runs Node in it as the image's user. */
const CONFINE = `
set -e
root=$1 data=$2 tmp=$3; shift 3
mount --bind "$root" "$root"
mount -t tmpfs tmpfs "$root/dev"
touch "$root/dev/null"
mount --bind /dev/null "$root/dev/null"
mount -o remount,ro "$root/dev"
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

/** A copy of what the Dockerfile reads, which does not change while an image is built. @returns its directory */
export function copyOfContext(from = CHECKOUT): string {
  const directory = mkdtempSync(join(tmpdir(), 'postern-context-'))
  const ignored = readFileSync(join(from, '.dockerignore'), 'utf8')
  const named = [...ignored.matchAll(/^!(.+)$/gm)].map(([, name = '']) => name)
  for (const name of ['Dockerfile', '.dockerignore', ...named])
    cpSync(join(from, name), join(directory, name), { recursive: true })
  return directory
}

/** The image of the Dockerfile, on stand-ins for its base images. */
export class BuiltImage {
  readonly #directory = mkdtempSync(join(tmpdir(), 'postern-image-'))
  readonly #container: string
  readonly id: string
  readonly root: string
  readonly data = join(this.#directory, 'data')
  readonly tmp = join(this.#directory, 'tmp')

  constructor(id: string) {
    this.id = id
    this.#container = buildah('from', '--pull-never', id)
    this.root = buildah('mount', this.#container)
    chmodSync(this.#directory, 0o755)
    for (const place of [this.data, this.tmp]) {
      mkdirSync(place)
      chownSync(place, USER, USER)
    }
  }

  /** Builds the Dockerfile of a copy of this checkout. @returns the image's id, a digest of its content */
  static async build(revision: string, context: string): Promise<string> {
    const bases = standInImages()
    const directory = mkdtempSync(join(tmpdir(), 'postern-build-'))
    const file = join(directory, 'id')
    const args = [`BUILD_IMAGE=${bases.build}`, `RUNTIME_IMAGE=${bases.runtime}`, `REVISION=${revision}`]
    const words = [
      ...['bud', '--isolation', 'chroot', '--no-cache', '--timestamp', String(SOURCE_DATE_EPOCH)],
      ...args.flatMap(arg => ['--build-arg', arg]),
      ...['--iidfile', file, context],
    ]
    const options = { env: BUILDAH_ENV, cwd: homedir(), timeout: BUILD_DEADLINE_MS, maxBuffer: 2 ** 26 }
    await promisify(execFile)('buildah', [...BUILDAH_STORE, ...words], options)
    const id = readFileSync(file, 'utf8')
    rmSync(directory, { recursive: true })
    return id
  }

  /** Command line that runs Node in the image; its arguments follow. */
  get launcher(): readonly string[] {
    const shell = ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', CONFINE, 'confine']
    return [...shell, this.root, this.data, this.tmp]
  }

  /** Every file of the image, relative to its root. */
  files(): string[] {
    return readdirSync(this.root, { recursive: true, encoding: 'utf8' }).sort()
  }

  /** The image's configuration, as containers/image declares it. */
  config(): Readonly<Record<string, unknown>> {
    // `buildah inspect` prints it of every image.
    return this.description()['config'] as Readonly<Record<string, unknown>>
  }

  /** Configuration, history and digests of the layers (OCI): with the files all of what the image's id is a digest of. */
  description(): Readonly<Record<string, unknown>> {
    const { OCIv1 } = JSON.parse(buildah('inspect', '--type', 'image', this.id)) as {
      OCIv1: Record<string, unknown>
    }
    return OCIv1
  }

  remove(): void {
    buildah('rm', this.#container)
    buildah('rmi', '--force', this.id)
    rmSync(this.#directory, { recursive: true, force: true })
  }
}
