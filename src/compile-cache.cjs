'use strict'

const { enableCompileCache } = require('node:module')
const { join } = require('node:path')

// Stripping types and compiling is a third of a start from sources. Node goes without where it can neither read nor write
// there, and takes nothing that was made of another text or by another Node.
enableCompileCache(join(__dirname, '../node_modules/.cache/postern'))
