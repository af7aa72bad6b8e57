"use strict";
// Shared by the report, which carries it inline, and by explore. A classic script: an inline module would run too late.
const byId = (id) => document.getElementById(id);
const create = (tag, properties = {}) => Object.assign(document.createElement(tag), properties);
