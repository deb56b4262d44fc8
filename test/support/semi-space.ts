import { readFileSync } from 'node:fs'

const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')

/** What `npm start` gives to node, as the image must, so that what is measured is what people run. */
export const SEMI_SPACE_MIB = Number(/node --max-semi-space-size=(\d+) /.exec(manifest)?.[1])
