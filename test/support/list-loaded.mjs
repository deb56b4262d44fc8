import { writeFileSync } from 'node:fs'
import { registerHooks } from 'node:module'

/** Preloaded into a program: on exit, writes the URLs of all loaded modules to the file LOADED_FILE. */
const loaded = new Set()
registerHooks({
  load(url, context, next) {
    loaded.add(url)
    return next(url, context)
  },
})
process.on('exit', () => writeFileSync(process.env['LOADED_FILE'], JSON.stringify([...loaded])))
