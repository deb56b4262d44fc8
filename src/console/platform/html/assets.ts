import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import type { FastifyInstance } from 'fastify'

const A_YEAR_SECONDS = 31_536_000

/** A static file whose name holds a digest of its content, so that browsers may cache it forever. */
interface Asset {
  readonly path: string
  readonly type: string
  readonly body: Buffer
  readonly gzipped: Buffer
}

export const STYLESHEET = readAsset('console.css', 'text/css; charset=utf-8')
export const SCRIPT = readAsset('console.js', 'text/javascript; charset=utf-8')
export const ICON = readAsset('icon.svg', 'image/svg+xml')

function readAsset(file: string, type: string): Asset {
  const body = readFileSync(new URL(`./assets/${file}`, import.meta.url))
  const [name, ending] = file.split('.')
  return {
    path: `/assets/${name}.${hash('sha256', body).slice(0, 16)}.${ending}`,
    type,
    body,
    gzipped: gzipSync(body),
  }
}

/** They hold no secrets, so that their length may depend on their content. Pages are not compressed. */
export function registerAssets(scope: FastifyInstance): void {
  for (const { path, type, body, gzipped } of [STYLESHEET, SCRIPT, ICON]) {
    const headers = {
      'content-type': type,
      'cache-control': `public, max-age=${A_YEAR_SECONDS}, immutable`,
      vary: 'accept-encoding',
    }
    scope.get(path, (request, reply) =>
      acceptsGzip(request.headers['accept-encoding'])
        ? reply.headers({ ...headers, 'content-encoding': 'gzip' }).send(gzipped)
        : reply.headers(headers).send(body),
    )
  }
}

/** RFC 9110, section 12.5.3. A weight of zero refuses a coding. */
function acceptsGzip(accepted = ''): boolean {
  return accepted.split(',').some(coding => {
    const [name, weight = 'q=1'] = coding.split(';').map(text => text.trim().toLowerCase())
    return name === 'gzip' && Number(weight.replace('q=', '')) > 0
  })
}
