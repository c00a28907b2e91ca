import "./polling.js";
import "./times.js";
import "./log.js";
import "./folding.js";
import "./newer.js";
import "./copying.js";
import "./uploading.js";
