import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cacheDirectory } from './cache-directory.ts'

const VERSION = '3.4.4'
/** Outside of the checkout, because a build takes minutes of processor time, once per machine. */
const CACHE = cacheDirectory('postern-traefik')

/** Whether it was built on this machine, or `BUILD_TRAEFIK=1` asks for it: a build from nothing takes too long for CI. */
export function hasTraefik(): boolean {
  return existsSync(join(CACHE, `traefik-${VERSION}`)) || process.env['BUILD_TRAEFIK'] === '1'
}

/** Path of Traefik, which is built from its Go module if it is not there. */
export function traefikProgram(): string {
  const program = join(CACHE, `traefik-${VERSION}`)
  if (!existsSync(program)) build(program)
  return program
}

function build(program: string): void {
  mkdirSync(CACHE, { recursive: true })
  const building = mkdtempSync(join(CACHE, 'build-'))
  try {
    const json = go(building, 'mod', 'download', '-json', `github.com/traefik/traefik/v3@v${VERSION}`)
    const { Dir } = JSON.parse(json) as { readonly Dir: string }
    const source = join(building, 'source')
    cpSync(Dir, source, { recursive: true })
    execFileSync('chmod', ['-R', 'u+w', source])
    // The module leaves out the pages that its program embeds.
    mkdirSync(join(source, 'webui/static'), { recursive: true })
    writeFileSync(join(source, 'webui/static/index.html'), '')
    const output = join(building, 'traefik')
    go(source, 'build', '-ldflags', '-s -w', '-o', output, './cmd/traefik')
    renameSync(output, program)
  } finally {
    rmSync(building, { recursive: true, force: true })
  }
}

function go(folder: string, ...args: string[]): string {
  const env = { ...process.env, GOFLAGS: '-mod=mod' }
  return execFileSync('go', args, { cwd: folder, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
}
