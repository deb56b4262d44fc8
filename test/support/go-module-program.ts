import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { cacheDirectory } from './cache-directory.ts'

export interface GoProgram {
  readonly name: string
  /** With its version: `github.com/traefik/traefik/v3@v3.4.4`. */
  readonly module: string
  /** Folder of its main package in the module. */
  readonly folder: string
  /** Changes the copy of the module that is built. */
  readonly prepare?: (source: string) => void
}

/** Outside of the checkout, because a build takes minutes of processor time, once per machine. */
export function isGoProgramBuilt(program: GoProgram): boolean {
  return existsSync(pathOf(program))
}

/**
 * Path of a program, which is built from its published Go module if it is not there. `go install` refuses these modules, because
 * their own go.mod replaces requirements; a copy is built with them.
 * @throws with what Go says
 */
export function goProgram(program: GoProgram): string {
  const path = pathOf(program)
  if (!existsSync(path)) build(program, path)
  return path
}

function pathOf({ name, module }: GoProgram): string {
  const version = module.slice(module.lastIndexOf('@v') + 2)
  return join(cacheDirectory(`postern-${name}`), `${name}-${version}`)
}

function build({ name, module, folder, prepare }: GoProgram, path: string): void {
  const cache = cacheDirectory(`postern-${name}`)
  mkdirSync(cache, { recursive: true })
  const building = mkdtempSync(join(cache, 'build-'))
  try {
    const { Dir } = JSON.parse(go(tmpdir(), 'mod', 'download', '-json', module)) as { readonly Dir: string }
    const source = join(building, 'source')
    cpSync(Dir, source, { recursive: true })
    execFileSync('chmod', ['-R', 'u+w', source])
    prepare?.(source)
    const output = join(building, name)
    // Without inlining (-l) the build takes less processor time, and the program is as fast as tests need.
    go(source, 'build', '-gcflags=all=-l', '-ldflags', '-s -w', '-o', output, folder)
    renameSync(output, path)
  } finally {
    rmSync(building, { recursive: true, force: true })
  }
}

function go(folder: string, ...args: string[]): string {
  const env = { ...process.env, GOFLAGS: '-mod=mod', CGO_ENABLED: '0' }
  return execFileSync('go', args, { cwd: folder, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}
