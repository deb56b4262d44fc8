import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { FastifyInstance } from 'fastify'

const A_YEAR_SECONDS = 31_536_000

/** A static file whose name holds a digest of its content, so that browsers may cache it forever. */
interface Asset {
  readonly path: string
  readonly type: string
  readonly body: Buffer
}

export const STYLESHEET = readAsset('console.css', 'text/css; charset=utf-8')
export const SCRIPT = readAsset('console.js', 'text/javascript; charset=utf-8')
export const ICON = readAsset('icon.svg', 'image/svg+xml')

function readAsset(file: string, type: string): Asset {
  const body = readFileSync(new URL(`./assets/${file}`, import.meta.url))
  const [name, ending] = file.split('.')
  return { path: `/assets/${name}.${hash('sha256', body).slice(0, 16)}.${ending}`, type, body }
}

export function registerAssets(scope: FastifyInstance): void {
  for (const { path, type, body } of [STYLESHEET, SCRIPT, ICON]) {
    scope.get(path, (_, reply) =>
      reply
        .headers({ 'content-type': type, 'cache-control': `public, max-age=${A_YEAR_SECONDS}, immutable` })
        .send(body),
    )
  }
}
