import { writeFileSync } from 'node:fs'
import { registerHooks } from 'node:module'

/** Preloaded into a program: when it ends, it writes the addresses of all modules that it loaded to the file LOADED_FILE. */
const loaded = new Set()
registerHooks({
  load(url, context, next) {
    loaded.add(url)
    return next(url, context)
  },
})
process.on('exit', () => writeFileSync(process.env['LOADED_FILE'], JSON.stringify([...loaded])))
