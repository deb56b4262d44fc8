import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type GoProgram, goProgram, isGoProgramBuilt } from './go-module-program.ts'

const TRAEFIK: GoProgram = {
  name: 'traefik',
  module: 'github.com/traefik/traefik/v3@v3.4.4',
  folder: './cmd/traefik',
  prepare(source) {
    // The module leaves out the pages that its program embeds.
    mkdirSync(join(source, 'webui/static'), { recursive: true })
    writeFileSync(join(source, 'webui/static/index.html'), '')
  },
}

/** Whether it was built on this machine, or `BUILD_TRAEFIK=1` asks for it: a build from nothing takes too long for CI. */
export function hasTraefik(): boolean {
  return isGoProgramBuilt(TRAEFIK) || process.env['BUILD_TRAEFIK'] === '1'
}

/** Path of Traefik, which is built from its Go module if it is not there. */
export function traefikProgram(): string {
  return goProgram(TRAEFIK)
}
