//! The effects of functions on the state of a library, as data: names, and an action for each.
//!
//! Names are matched without vendor suffixes; the first matching rule applies. Calls that no rule knows are kept, with
//! everything that they might need.

use crate::objects::Class;

/// The effect of a call, as far as later calls may depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Unknown: it is kept.
    Unknown,
    /// It has an effect of its own, depends on nothing, and is kept.
    Keep,
    /// It queries state and changes nothing.
    Query,
    /// It queries state; the answer may go into the buffer bound at this target.
    Pack(u64),
    /// It draws.
    Draw,
    /// It draws from earlier drawn contents (blits).
    DrawShown,
    /// It clears.
    Clear,
    /// A frame ends: the drawn contents are gone.
    Swap,
    /// Immediate-mode drawing begins; vertices follow, a call each.
    Begin,
    /// Immediate-mode drawing ends.
    End,
    /// It adds a vertex.
    Vertex,
    /// It sets a value until another call sets it for the same target.
    State,
    /// It enables or disables a capability.
    Switch,
    /// It selects the active texture unit.
    ActiveTexture,
    /// It selects the texture unit for coordinate arrays.
    ClientTexture,
    /// It changes a value without overwriting all of it.
    Accumulate,
    /// It makes a context current in a thread.
    MakeCurrent,
    /// It returns names of new objects, in an argument or as the result.
    Generate,
    /// It returns a range of new display lists.
    GenLists,
    /// It deletes objects.
    Delete,
    /// It deletes display lists.
    DeleteLists,
    /// It binds an object at a target, or makes it current.
    Bind(Class),
    /// It binds an object at a numbered place.
    BindAt(Class),
    /// It binds objects at several consecutive places.
    BindRange(Class),
    /// It replaces the part of the bound object that the level names, entirely.
    Replace(Class),
    /// It changes the object bound at a target.
    Change(Class),
    /// It sets a uniform of the current program.
    Uniform,
    /// It sets a source of vertices: this changes the current vertex array, which then depends on the bound buffer.
    Source,
    /// It changes the first object that it names, which then depends on the others.
    Named,
    /// It ends a query or the like at a target.
    Finish(Class),
    /// It begins to record a display list.
    NewList,
    /// It completes the display list.
    EndList,
    /// It executes display lists.
    CallList,
    /// It sets the kind of matrices that later calls change.
    MatrixMode,
    /// It sets the current matrix.
    LoadMatrix,
    /// It multiplies the current matrix.
    MultMatrix,
    /// It pushes the current matrix.
    PushMatrix,
    /// It pops the current matrix.
    PopMatrix,
    /// It pushes or pops many values at once.
    Attributes,
    /// It begins or ends transform feedback.
    Capture,
    /// It maps a buffer to memory.
    Map,
    /// It queries a framebuffer configuration; this matters if a context is made for that configuration.
    Config,
    /// It writes memory, which may be that of a mapped buffer.
    Copy,
}

use Action::*;

/// The target for packed pixels.
const PIXEL_PACK_BUFFER: u64 = 0x88eb;
/// The target for results of queries.
const QUERY_BUFFER: u64 = 0x9192;

/// Name patterns and actions; `*` at the end matches any suffix.
const RULES: &[(&str, Action)] = &[
    // Calls that look like queries but must stay: a replayer learns new names from them.
    ("glGetUniformLocation", Named),
    ("glGetAttribLocation", Named),
    ("glGetUniformBlockIndex", Named),
    ("glGetFragDataLocation", Named),
    ("glGetSubroutine*", Named),
    ("glGetProgramResource*", Named),
    ("glGetUniformIndices", Named),
    ("glGetTextureHandle", Keep),
    ("glGetTextureSamplerHandle", Keep),
    ("glGetImageHandle", Keep),
    // Queries.
    ("glReadPixels", Pack(PIXEL_PACK_BUFFER)),
    ("glReadnPixels", Pack(PIXEL_PACK_BUFFER)),
    ("glGetTexImage", Pack(PIXEL_PACK_BUFFER)),
    ("glGetCompressedTexImage", Pack(PIXEL_PACK_BUFFER)),
    ("glGetQueryObject*", Pack(QUERY_BUFFER)),
    ("glGet*", Query),
    ("glIs*", Query),
    ("glCheckFramebufferStatus", Query),
    ("glCheckNamedFramebufferStatus", Query),
    ("glAreTexturesResident", Query),
    ("glValidateProgram", Query),
    ("glFinish", Query),
    ("glFlush", Query),
    ("glObjectLabel", Query),
    ("glObjectPtrLabel", Query),
    ("glLabelObject", Query),
    ("glStringMarker", Query),
    ("glDebugMessageInsert", Query),
    ("glInsertEventMarker", Query),
    ("glFrameTerminator", Swap),
    // Drawing.
    ("glBegin", Begin),
    ("glEnd", End),
    ("glVertex2*", Vertex),
    ("glVertex3*", Vertex),
    ("glVertex4*", Vertex),
    ("glArrayElement", Vertex),
    ("glEvalCoord*", Vertex),
    ("glEvalPoint*", Vertex),
    ("glClear", Clear),
    ("glClearBuffer*", Draw),
    ("glClearNamedFramebuffer*", Draw),
    ("glBlitFramebuffer", DrawShown),
    ("glBlitNamedFramebuffer", DrawShown),
    ("glAccum", Draw),
    ("glBitmap", Draw),
    ("glCopyPixels", DrawShown),
    ("glDrawPixels", Draw),
    ("glRect*", Draw),
    ("glDrawBuffer*", Change(Class::Framebuffer)),
    ("glReadBuffer", Change(Class::Framebuffer)),
    ("glColorMask", State),
    ("glMultiDraw*", Draw),
    ("glDraw*", Draw),
    // Display lists.
    ("glNewList", NewList),
    ("glEndList", EndList),
    ("glCallList", CallList),
    ("glCallLists", CallList),
    ("glGenLists", GenLists),
    ("glDeleteLists", DeleteLists),
    ("glListBase", State),
    // Objects.
    ("glGenerateMipmap", Change(Class::Texture)),
    ("glGenerateTextureMipmap", Named),
    ("glGen*", Generate),
    ("glCreate*", Generate),
    ("glDeleteSync", Keep),
    ("glFenceSync", Keep),
    ("glClientWaitSync", Keep),
    ("glWaitSync", Keep),
    ("glDelete*", Delete),
    ("glBindTexture", Bind(Class::Texture)),
    ("glBindBuffer", Bind(Class::Buffer)),
    ("glBindFramebuffer", Bind(Class::Framebuffer)),
    ("glBindRenderbuffer", Bind(Class::Renderbuffer)),
    ("glBindVertexArray", Bind(Class::VertexArray)),
    ("glBindProgramPipeline", Bind(Class::Pipeline)),
    ("glBindTransformFeedback", Bind(Class::TransformFeedback)),
    ("glBindProgram", Bind(Class::Assembly)),
    ("glBindFragmentShader", Bind(Class::Assembly)),
    ("glUseProgram", Bind(Class::Program)),
    ("glUseProgramObject", Bind(Class::Program)),
    ("glBindSampler", BindAt(Class::Sampler)),
    ("glBindSamplers", BindRange(Class::Sampler)),
    ("glBindTextures", BindRange(Class::Texture)),
    ("glBindImageTextures", BindRange(Class::Texture)),
    ("glBindBuffersBase", BindRange(Class::Buffer)),
    ("glBindBuffersRange", BindRange(Class::Buffer)),
    ("glBindTextureUnit", BindAt(Class::Texture)),
    ("glBindImageTexture", BindAt(Class::Texture)),
    ("glBindBufferBase", BindAt(Class::Buffer)),
    ("glBindBufferRange", BindAt(Class::Buffer)),
    ("glBindBufferOffset", BindAt(Class::Buffer)),
    ("glBindVertexBuffer*", Source),
    ("glBindAttribLocation", Named),
    ("glBindFragDataLocation*", Named),
    // Changes of the bound object.
    ("glTexImage*", Replace(Class::Texture)),
    ("glCompressedTexImage*", Replace(Class::Texture)),
    ("glTexSubImage*", Change(Class::Texture)),
    ("glCopyTexImage*", Replace(Class::Texture)),
    ("glCopyTexSubImage*", Change(Class::Texture)),
    ("glCompressedTexSubImage*", Change(Class::Texture)),
    ("glTexStorage*", Change(Class::Texture)),
    ("glTexParameter*", Change(Class::Texture)),
    ("glTexBuffer*", Change(Class::Texture)),
    ("glTexPage*", Change(Class::Texture)),
    ("glEGLImageTargetTex*", Change(Class::Texture)),
    ("glBufferData", Replace(Class::Buffer)),
    ("glBufferSubData", Change(Class::Buffer)),
    ("glBufferStorage*", Change(Class::Buffer)),
    ("glBufferParameter*", Change(Class::Buffer)),
    ("glMapBuffer*", Map),
    ("glUnmapBuffer", Change(Class::Buffer)),
    ("glFlushMappedBufferRange", Change(Class::Buffer)),
    ("glRenderbufferStorage*", Change(Class::Renderbuffer)),
    ("glEGLImageTargetRenderbuffer*", Change(Class::Renderbuffer)),
    ("glFramebuffer*", Change(Class::Framebuffer)),
    ("glProgramString", Change(Class::Assembly)),
    ("glProgramLocalParameter*", Change(Class::Assembly)),
    ("glUniformBlockBinding", Named),
    ("glUniform*", Uniform),
    ("glBeginQuery*", Named),
    ("glEndQuery*", Finish(Class::Query)),
    ("glQueryCounter", Named),
    ("glBeginTransformFeedback", Capture),
    ("glEndTransformFeedback", Capture),
    ("glVertexAttribPointer", Source),
    ("glVertexAttribIPointer", Source),
    ("glVertexAttribLPointer", Source),
    ("glVertexAttribFormat", Source),
    ("glVertexAttribIFormat", Source),
    ("glVertexAttribLFormat", Source),
    ("glVertexAttribBinding", Source),
    ("glVertexAttribDivisor", Source),
    ("glVertexBindingDivisor", Source),
    ("glEnableVertexAttribArray", Source),
    ("glDisableVertexAttribArray", Source),
    ("glEnableClientState", Source),
    ("glDisableClientState", Source),
    ("glVertexPointer", Source),
    ("glNormalPointer", Source),
    ("glColorPointer", Source),
    ("glSecondaryColorPointer", Source),
    ("glTexCoordPointer", Source),
    ("glFogCoordPointer", Source),
    ("glIndexPointer", Source),
    ("glEdgeFlagPointer", Source),
    ("glInterleavedArrays", Accumulate),
    // Matrices.
    ("glMatrixMode", MatrixMode),
    ("glLoadIdentity", LoadMatrix),
    ("glLoadMatrix*", LoadMatrix),
    ("glLoadTransposeMatrix*", LoadMatrix),
    ("glMultMatrix*", MultMatrix),
    ("glMultTransposeMatrix*", MultMatrix),
    ("glTranslate*", MultMatrix),
    ("glRotate*", MultMatrix),
    ("glScale*", MultMatrix),
    ("glOrtho*", MultMatrix),
    ("glFrustum*", MultMatrix),
    ("glPushMatrix", PushMatrix),
    ("glPopMatrix", PopMatrix),
    ("glPushAttrib", Attributes),
    ("glPopAttrib", Attributes),
    ("glPushClientAttrib", Attributes),
    ("glPopClientAttrib", Attributes),
    ("glPushDebugGroup", Keep),
    ("glPopDebugGroup", Keep),
    // Values.
    ("glEnable", Switch),
    ("glDisable", Switch),
    ("glActiveTexture", ActiveTexture),
    ("glClientActiveTexture", ClientTexture),
    ("glViewportArray*", Accumulate),
    ("glScissorArray*", Accumulate),
    ("glDepthRangeArray*", Accumulate),
    ("glRasterPos*", Accumulate),
    ("glWindowPos*", Accumulate),
    ("glVertexAttrib*", State),
    ("glColorMaterial", State),
    ("glColor*", State),
    ("glSecondaryColor*", State),
    ("glNormal*", State),
    ("glTexCoord*", State),
    ("glMultiTexCoord*", State),
    ("glFogCoord*", State),
    ("glIndex*", State),
    ("glEdgeFlag*", State),
    ("glMaterial*", State),
    ("glBlend*", State),
    ("glDepth*", State),
    ("glStencil*", State),
    ("glClearColor*", State),
    ("glClearDepth*", State),
    ("glClearStencil", State),
    ("glClearAccum", State),
    ("glClearIndex", State),
    ("glCullFace", State),
    ("glFrontFace", State),
    ("glPolygonMode", State),
    ("glPolygonOffset*", State),
    ("glLineWidth*", State),
    ("glLineStipple", State),
    ("glPointSize*", State),
    ("glPointParameter*", State),
    ("glShadeModel", State),
    ("glLogicOp", State),
    ("glAlphaFunc*", State),
    ("glFog*", State),
    ("glLight*", State),
    ("glTexEnv*", State),
    ("glTexGen*", State),
    ("glScissor*", State),
    ("glViewport*", State),
    ("glPixelStore*", State),
    ("glPixelTransfer*", State),
    ("glPixelZoom", State),
    ("glHint", State),
    ("glSampleCoverage*", State),
    ("glSampleMask*", State),
    ("glMinSampleShading", State),
    ("glPatchParameter*", State),
    ("glPrimitiveRestartIndex", State),
    ("glProvokingVertex", State),
    ("glClampColor", State),
    ("glClipPlane*", State),
    ("glClipControl", State),
    ("glPrimitiveBoundingBox", State),
    // Functions that name their objects.
    ("glTexture*", Named),
    ("glCompressedTextureSubImage*", Named),
    ("glNamed*", Named),
    ("glVertexArray*", Named),
    ("glEnableVertexArrayAttrib", Named),
    ("glDisableVertexArrayAttrib", Named),
    ("glSamplerParameter*", Named),
    ("glAttachShader", Named),
    ("glAttachObject", Named),
    ("glDetachShader", Named),
    ("glDetachObject", Named),
    ("glShaderSource", Named),
    ("glShaderBinary", Named),
    ("glCompileShader*", Named),
    ("glSpecializeShader", Named),
    ("glLinkProgram", Named),
    ("glProgramBinary", Named),
    ("glProgramParameter*", Named),
    ("glProgramUniform*", Named),
    ("glShaderStorageBlockBinding", Named),
    ("glTransformFeedbackVaryings", Named),
    ("glUseProgramStages", Named),
    ("glActiveShaderProgram", Named),
    // Memory.
    ("memcpy", Copy),
    // Window systems. A query of a configuration tells a replayer which one to choose. The flags of a call determine whether
    // it ends a frame.
    ("glXGetFBConfigAttrib*", Config),
    ("eglGetConfigAttrib", Config),
    ("glXMakeCurrent*", MakeCurrent),
    ("glXMakeContextCurrent", MakeCurrent),
    ("eglMakeCurrent", MakeCurrent),
    ("wglMakeCurrent", MakeCurrent),
    ("wglMakeContextCurrent", MakeCurrent),
    ("CGLSetCurrentContext", MakeCurrent),
];

/// Vendor suffixes of extension functions.
const VENDORS: &[&str] = &[
    "ARB", "EXT", "KHR", "OES", "NV", "NVX", "ATI", "AMD", "APPLE", "SGIS", "SGIX", "SGI", "IBM", "INTEL",
    "ANGLE", "MESA", "SUN", "QCOM", "IMG", "GREMEDY",
];

/// The action of the function with this name; `Unknown` if no rule matches.
pub(super) fn action(name: &str) -> Action {
    // The whole name is matched too: functions of window systems keep their suffixes.
    let stem = VENDORS.iter().find_map(|vendor| name.strip_suffix(vendor)).unwrap_or(name);
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => stem.starts_with(start) || name.starts_with(start),
        None => stem == pattern || name == pattern,
    };
    RULES.iter().find(|(pattern, _)| fits(pattern)).map_or(Unknown, |(_, action)| *action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_holds() {
        for (name, expected) in [
            ("glGetUniformLocation", Named),
            ("glGetError", Query),
            ("glGenTextures", Generate),
            ("glGenerateMipmapEXT", Change(Class::Texture)),
            ("glGenLists", GenLists),
            ("glBindFramebufferEXT", Bind(Class::Framebuffer)),
            ("glDrawBuffers", Change(Class::Framebuffer)),
            ("glDrawArraysInstanced", Draw),
            ("glEnd", End),
            ("glEndList", EndList),
            ("glEndQueryARB", Finish(Class::Query)),
            ("glClear", Clear),
            ("glClearColor", State),
            ("glVertex3f", Vertex),
            ("glVertexAttrib4f", State),
            ("glVertexAttribPointerARB", Source),
            ("glColor3f", State),
            ("glColorPointer", Source),
            ("glUniformBlockBinding", Named),
            ("glUseProgramObjectARB", Bind(Class::Program)),
            ("glTexImage2D", Replace(Class::Texture)),
            ("glTextureSubImage2D", Named),
            ("glXMakeCurrent", MakeCurrent),
            ("glDispatchCompute", Unknown),
            ("ID3D11Device::CreateBuffer", Unknown),
        ] {
            assert_eq!(action(name), expected, "{name}");
        }
    }
}
